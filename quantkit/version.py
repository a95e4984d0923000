"""The version of this package, as bundles, results and exported files state it."""

__version__ = "0.1.0"
