"""Networks made ready for measuring: checkpoints that any build can run, inputs, and expected outputs."""
