"""Tests of README.md and of the site in docs/."""
