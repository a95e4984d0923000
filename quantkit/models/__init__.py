"""Finding and loading networks and their weights."""
