"""Calibration: which range of real values each tensor takes on sample data."""
