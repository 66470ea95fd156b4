"""Figures: each a name, a question, a tidy frame and a drawing, which files for print and pages
share.
"""
