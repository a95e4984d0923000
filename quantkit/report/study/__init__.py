"""What benchmark results say, as values and sentences."""
