"""Algorithms after training: weights, biases and ranges that lose less in INT8, found with sample images."""
