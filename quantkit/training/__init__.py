"""Training: networks learn other classes before they are quantized, or their own rounding afterwards."""
