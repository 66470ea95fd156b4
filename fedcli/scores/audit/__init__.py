"""Attacks on a finished run: membership, the hospital of an image, images from gradients."""
