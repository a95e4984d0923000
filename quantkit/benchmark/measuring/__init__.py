"""Measuring: instances started, turns taken, clock readings kept."""
