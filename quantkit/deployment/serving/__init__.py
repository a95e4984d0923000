"""Serving: bundles over HTTP, by the Open Inference Protocol."""
