"""The only room that imports mxnet: loading it, running networks, reading off its kernels."""
