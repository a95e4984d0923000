"""Networks as values: graphs, their file formats, and what is known of MXNet's operators."""
