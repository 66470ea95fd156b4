"""From a raw folder to a pool: what is asked, where the files are, decoding, splits and attributes
of one's own."""
