"""From a quantized graph to the networks that engines run."""
