"""Accuracy tables: every form of networks over the same images."""
