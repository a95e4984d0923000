"""The stages between a model and its quantized network, each from value to value."""
