"""Operating points, calibration and sets of classes, beside how well a model ranks."""
