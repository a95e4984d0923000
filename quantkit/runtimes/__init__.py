"""Engines that run ONNX files."""
