"""Training: fine-tuning a network to new classes before it is quantized."""
