"""The questions of a clinic beside how well a model ranks: operating points, calibration, sets of classes."""
