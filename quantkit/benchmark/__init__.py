"""Measuring throughput and latency of networks across engine builds and pinned instances."""
