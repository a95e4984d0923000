"""Operators merged by rules, and the numeric check of the result."""
