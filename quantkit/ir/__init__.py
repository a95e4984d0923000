"""Networks as values: graphs, fused layers, and what is known of MXNet's operators."""
