"""From ranges to a plan: what runs in INT8, with which scales."""
