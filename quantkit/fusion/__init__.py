"""Rewrites that merge operators, each with its check, and the numeric check."""
