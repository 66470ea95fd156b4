"""Photographs and OCT volumes of eyes."""
