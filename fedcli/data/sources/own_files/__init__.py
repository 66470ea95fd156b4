"""Your own images: a folder with a table, or a folder for each class."""
