"""A run's last model in use: on new images, and as a file of its own."""
