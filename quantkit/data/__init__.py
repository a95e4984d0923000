"""Images: sample data of every kind, and the arrays that networks read."""
