"""Photographs of skin lesions: the collections of the ISIC archive."""
