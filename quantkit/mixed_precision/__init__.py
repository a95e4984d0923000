"""Accuracy-aware mixed precision: which layers to return to FP32 so that a goal is met."""
