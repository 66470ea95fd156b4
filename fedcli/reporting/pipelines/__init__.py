"""Scores as a pipeline reads them: a handful of numbers, and whether a limit is passed."""
