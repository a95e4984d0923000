"""Benchmark results made readable: tables, figures, a page, and the comparison of two runs."""
