"""ONNX's own backend test cases, each through the importer and MXNet, held against the outputs that ONNX expects.

    python benchmarks/onnx_conformance.py --out benchmarks/results/onnx-conformance
    python benchmarks/onnx_conformance.py --network test_conv

A case is right, refused with a reason (an error of quantkit's), wrong, or failed (any other exception). The exit code
is 1 if one is wrong or failed. Cases of one operator are counted by operator; those of the operators in ``LAYERS`` are
the ones that tell how much of the networks of others is read. Needs the extra onnx. No time is measured.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import Document, arguments, described, run, table, write_rows
from onnx_cases import Result, cases, result_of

# What exporters write for the layers of convolutional and recurrent networks, such as those of GluonCV, torchvision and
# Keras. Left out is what only computes shapes there (Shape, Size, Constant, ConstantOfShape, Range, Cast, Where,
# comparisons): alone, it has no data to compute on. So is what such networks do not have: detection's last steps (NMS,
# TopK, RoiAlign), attention and other parts of transformers, training, control flow, text, signals, integers.
LAYERS = frozenset([
    "Conv", "ConvTranspose", "Gemm", "MatMul", "RNN", "GRU", "LSTM",
    "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "LpNormalization", "LRN",
    "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool",
    "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Gelu", "Mish", "Swish", "Sigmoid", "HardSigmoid", "HardSwish",
    "Tanh", "Softplus", "Softsign", "Clip", "Softmax", "LogSoftmax",
    "Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Max", "Min", "Abs", "Neg", "Exp", "Log", "Sqrt", "Reciprocal",
    "Erf",
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ArgMax",
    "Concat", "Split", "Slice", "Gather", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile",
    "Pad", "Identity", "Dropout", "DepthToSpace", "SpaceToDepth", "Resize", "Upsample",
])  # fmt: skip

_COLUMNS = ("operator", "cases", "right", "refused", "wrong", "usual reason of a refusal")


def main() -> None:
    """Go through the cases that the command line asks for."""
    options = arguments(__doc__).parse_args()
    parts = options.network or [""]
    command = "python benchmarks/onnx_conformance.py" + "".join(f" --network {part}" for part in options.network or ())
    results = list(_results(parts))
    print("\n".join(_lines([vars(each) for each in results])))
    if options.out is not None:
        write_rows(options.out, command, results, page)
    if any(each.outcome in ("wrong", "failed") for each in results):
        sys.exit(1)


def _results(parts: Iterable[str]) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            for case in cases(part=part):
                result = result_of(case, Path(folder))
                if result.outcome in ("wrong", "failed"):
                    print(f"{case.kind} {case.name}: {result.outcome}, {result.reason}", flush=True)
                yield result


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return "\n".join([described(document), "", *_lines(document["rows"])]) + "\n"


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    single = [row for row in rows if row["operator"]]
    layers = [row for row in single if row["operator"] in LAYERS]
    others = [row for row in single if row["operator"] not in LAYERS]
    return [
        f"All cases: {_counted(rows)}. Of one operator: {_counted(single)}.",
        "",
        f"Of one operator that convolutional and recurrent networks have: {_counted(layers)}.",
        "",
        *_table(layers),
        "",
        f"Of another operator: {_counted(others)}. Those of which some are right:",
        "",
        *_table([row for row in others if row["operator"] in _read(others)]),
        "",
        f"Of several operators: {_counted([row for row in rows if not row['operator']])}.",
    ]


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(row["outcome"] for row in rows)
    share = 100 * counts["right"] / max(len(rows), 1)
    bad = counts["wrong"] + counts["failed"]
    return f"{counts['right']} of {len(rows)} right ({share:.1f} %), {counts['refused']} refused, {bad} wrong"


def _read(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    return {row["operator"] for row in rows if row["outcome"] == "right"}


def _table(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from table(_COLUMNS)
    by_operator = defaultdict(list)
    for row in rows:
        by_operator[row["operator"]].append(row)
    for operator, own in sorted(by_operator.items()):
        counts = Counter(row["outcome"] for row in own)
        reasons = Counter(_reason(row["reason"]) for row in own if row["outcome"] == "refused")
        usual = reasons.most_common(1)[0][0] if reasons else ""
        bad = counts["wrong"] + counts["failed"]
        yield f"| {operator} | {len(own)} | {counts['right']} | {counts['refused']} | {bad} | {usual} |"


def _reason(text: str) -> str:
    """The reason alone, without the file and the operator that a message begins with and the remedy that ends it."""
    _, _, after = text.partition("of its operators: ")
    _, _, own = after.partition(": ")
    return (own or text).split(". Replace them")[0].split("; ")[0].replace("|", "/")


if __name__ == "__main__":
    run(main)
