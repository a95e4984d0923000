"""Which engine runs a bundle's network."""
