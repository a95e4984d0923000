"""From ranges to a quantized graph: what runs in INT8, with which scales."""
