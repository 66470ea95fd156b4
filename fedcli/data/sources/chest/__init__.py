"""Radiographs of the chest."""
