"""A network as an ONNX model, operator by operator."""
