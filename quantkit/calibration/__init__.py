"""Calibration: the range of real values that each tensor takes on sample data."""
