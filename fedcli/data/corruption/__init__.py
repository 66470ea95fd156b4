"""Images, labels and attributes made worse on purpose: images, labels and attributes of some
clients."""
