"""Predicting with a bundle, and the choice of the engine that runs it."""
