"""What a finished run gives away about its patients: membership, the hospital of an image, images from gradients."""
