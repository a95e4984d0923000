"""Where a network's time goes: by layer, by operator, by kernel, against what the machine can reach."""
