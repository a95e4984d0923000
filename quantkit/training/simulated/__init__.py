"""A quantized network as an FP32 network that rounds as INT8 does and can be trained, and the way back."""
