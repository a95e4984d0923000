"""A network that would have MXNet call through a pointer ends every verb that reads networks with one clear message."""

from __future__ import annotations

VERBS = {
    "quantize": ["quantize", "net", "--calib-data", "samples.npz"],
    "fuse": ["fuse", "net", "--calib-data", "samples.npz"],
    "calibrate": ["calibrate", "net", "--calib-data", "samples.npz", "--out", "table.json"],
    "explain": ["explain", "net"],
    "evaluate": ["evaluate", "net", "--data", "samples.npz"],
    "export": ["export", "net", "--out", "net.onnx"],
    "benchmark": ["benchmark", "net", "--builds", "here"],
    "profile": ["profile", "net"],
}
