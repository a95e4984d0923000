"""Where instances run, how they get there, and the proof that they did."""
