"""Analysis: why an INT8 network differs from FP32, layer by layer."""
