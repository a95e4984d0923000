"""Networks of one ONNX operator each, by the readers of these operators."""
