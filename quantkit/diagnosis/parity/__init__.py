"""Parity: whether an ONNX file computes what the bundle's network computes in MXNet, and in integers."""
