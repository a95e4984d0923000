"""Functions of one value."""

from __future__ import annotations

from tests.formats.onnx.reading.cases.build import Build, one, positive

CASES: dict[str, Build] = {
    **{
        op: one(op)
        for op in (
            "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Exp", "Abs", "Neg", "Erf", "Floor", "Ceil", "LeakyRelu",
            "Elu", "Selu", "HardSigmoid", "HardSwish", "Identity", "Dropout", "Sin", "Cos",
        )
    },
    **{op: positive(op) for op in ("Log", "Sqrt", "Reciprocal")},
    "leaky with slope": one("LeakyRelu", alpha=0.3),
    "celu": one("Celu", alpha=0.7),
    "selu with constants": one("Selu", alpha=0.7, gamma=1.3),
    "elu with slope": one("Elu", alpha=0.7),
    "hard sigmoid with slope": one("HardSigmoid", alpha=1 / 6, beta=0.4),
    "prelu of channels": lambda w: w.op("PRelu", "x", w.normal(6, 1, 1)),
    "prelu of columns": lambda w: w.op("PRelu", "x", w.normal(14)),
    "prelu": lambda w: w.op("PRelu", "x", w.normal(1)),
    "clip": one("Clip", -0.5, 0.25),
    "clip from 0": one("Clip", 0.0),
    "clip from above": one("Clip", "", 0.25),
    "clip from below": one("Clip", -0.25),
    "no clip": one("Clip"),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "dropout 7": (7, one("Dropout", ratio=0.3)),
    "prelu 8": (8, lambda w: w.op("PRelu", "x", w.normal(6, 1, 1))),
    "clip by attributes": (9, one("Clip", min=-0.5, max=0.25)),
    "dropout": (9, one("Dropout", ratio=0.3)),
    "dropout with a mask that nothing reads": (10, lambda w: w.op("Dropout", "x", count=2)[0]),
    "gelu": (20, one("Gelu")),
    "gelu by tanh": (20, one("Gelu", approximate="tanh")),
    "mish": (18, one("Mish")),
    "swish": (24, one("Swish")),
    "swish with slope": (24, one("Swish", alpha=1.7)),
}  # fmt: skip
