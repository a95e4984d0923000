"""Whether an ONNX file computes what the bundle's network does in MXNet, and in integers."""
