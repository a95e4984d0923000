"""Watching a deployment: whether what it is given and puts out drifts, and how far it agrees with FP32."""
