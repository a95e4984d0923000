"""Drift: how far what a network is given and puts out is from what it was calibrated on."""
