"""The rewrites, one file each."""
