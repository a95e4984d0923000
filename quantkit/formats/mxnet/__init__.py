"""MXNet's files: symbols in nnvm JSON, and parameters."""
