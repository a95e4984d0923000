"""Tasks: what the outputs of detectors and other networks mean, and how they are judged."""
