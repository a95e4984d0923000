"""Raw readings on disk, and the statistics of them."""
