"""Networks from ONNX files as graphs of MXNet's operators."""
