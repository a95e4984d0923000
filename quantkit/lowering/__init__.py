"""From a fused network and a plan to the networks that engines run."""
