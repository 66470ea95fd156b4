"""Files: text, CSV, TOML and HDF5, written whole or not at all, and locks on them."""
