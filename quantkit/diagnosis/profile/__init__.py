"""Profiling: where a network's time goes, by layer, operator and kernel, compared with the machine's peak."""
