"""Kinds of files: photographs, DICOM, NIfTI, and what packs many images into one."""
