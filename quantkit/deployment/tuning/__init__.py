"""Tuning: the fastest deployment of a bundle on this machine, found by measuring."""
