"""Measures of networks: accuracy, agreement, latency."""
