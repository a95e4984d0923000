"""Facts about the machine that decide how fast, and how exactly, an INT8 network runs."""
