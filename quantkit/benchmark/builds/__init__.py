"""The engine builds that are compared, each in an environment of its own."""
