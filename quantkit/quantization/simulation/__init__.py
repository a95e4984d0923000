"""What the INT8 network computes, operator by operator, beside what FP32 computes."""
