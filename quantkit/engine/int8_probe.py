"""Run one small INT8 convolution: ``python -m quantkit.engine.int8_probe`` ends with 0 where the engine survives it."""

from __future__ import annotations

from quantkit.engine.compat import load_mxnet


def main() -> None:
    """Compute a 1x1 convolution of 16 unsigned channels."""
    mxnet = load_mxnet()
    data, weight = mxnet.nd.ones((1, 16, 4, 4), dtype="uint8"), mxnet.nd.ones((16, 16, 1, 1), dtype="int8")
    low, high = mxnet.nd.zeros(1), mxnet.nd.ones(1)
    outputs = mxnet.nd.contrib.quantized_conv(
        data, weight, None, low, high, low, high, None, None, kernel=(1, 1), num_filter=16, no_bias=True
    )
    outputs[0].wait_to_read()


if __name__ == "__main__":
    main()
