"""ONNX files: bytes looked at before libraries, networks read, networks written."""
