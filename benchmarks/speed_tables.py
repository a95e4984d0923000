"""The tables of speed on pages that people write, from the folders of runs and the plain loops beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import table

from quantkit.benchmark.results.statistics import Ratio, ratio
from quantkit.host.revision import Revision, described
from quantkit.report.study.summary import Row, Study
from quantkit.report.study.words import LEGEND, TIMES, marked, number

# Contestants of the suite lstm-int8, and what the page calls them: FP32 in an older engine, and LSTM layers in INT8.
_OLD_FP32 = "mkl-1.5"
_LSTM_FORMS = {
    _OLD_FP32: "FP32 in mxnet-mkl 1.5",
    "INT8": "MXNet",
    "ONNX Runtime INT8": "quantkit's file in ONNX Runtime",
    "ONNX Runtime dynamic": "ONNX Runtime dynamic",
    "OpenVINO INT8": "quantkit's file in OpenVINO",
    "OpenVINO NNCF": "NNCF",
}

# Contestants of the suite onnx-files with quantkit's files, and the engine's own quantizer beside each.
_ONNX_FILES = {"ONNX Runtime INT8": "ONNX Runtime PTQ", "OpenVINO INT8": "OpenVINO NNCF"}

# Contestants of the suite int8-speedup with INT8 networks: those of MXNet's own quantizer, and quantkit's.
_STOCK, _OWN = ("mkl-1.5 stock INT8", "stock INT8"), "INT8"


def speedup_lines(found: Study, batch: int) -> Iterator[str]:
    """How it was measured; native throughput and the ratios to it, for one batch size; then what marks mean."""
    yield f"Batches of {batch} images on {_measured(found)}"
    yield ""
    measured = {row.contestant for row in found.rows}
    names = [name for name in found.challengers if name in measured]
    columns = ["network", "native, images/s", *(f"{name}, times native" for name in names), "INT8, images/s"]
    yield from _marked_table(columns, [
        [
            network, _throughput(found, network, batch, "native"),
            *(_times(found, network, batch, name) for name in names),
            _throughput(found, network, batch, "INT8"),
        ]
        for network in dict.fromkeys(row.network for row in found.rows)
    ])  # fmt: skip


def stock_ahead_lines(found: Study) -> Iterator[str]:
    """The networks and batch sizes at which MXNet's own INT8 is faster than quantkit's, measured in turns."""
    ahead = [
        [network, str(batch), name, _compared(found, network, batch, name, _OWN)]
        for network, batch in dict.fromkeys((row.network, row.batch) for row in found.rows)
        for name in _STOCK
        if (times := _factor(found, network, batch, name, _OWN)) is not None and times.verdict == "faster"
    ]
    columns = ["network", "batch size", "MXNet's own INT8", "times as fast as quantkit's"]
    yield from _marked_table(columns, ahead) if ahead else ("- none",)


def lstm_lines(found: Study) -> Iterator[str]:
    """How it was measured; throughput in FP32 and the ratios to it by shape and batch size; then what marks mean."""
    yield f"On {_measured(found)}"
    yield ""
    columns = [f"layers {TIMES} units", "batch", "FP32 in MXNet, sequences/s", *_LSTM_FORMS.values()]
    yield from _marked_table(columns, [
        [
            _shape(network, batch), str(batch), _throughput(found, network, batch, found.run.baseline),
            *(_times(found, network, batch, name) for name in _LSTM_FORMS),
        ]
        for network, batch in dict.fromkeys((row.network, row.batch) for row in found.rows)
    ])  # fmt: skip


def lstm_summary_lines(found: Study, network: str) -> Iterator[str]:
    """Two sentences on one stack of LSTM layers that reads one sequence at a time."""
    over_new, over_old, in_openvino = (
        _compared(found, network, 1, *names)
        for names in ((_OWN, found.run.baseline), (_OWN, _OLD_FP32), ("OpenVINO INT8", "OpenVINO"))
    )
    yield (
        f"LSTM layers ({_shape(network, 1)} units), one sequence at a time: in MXNet, INT8 is {over_new} times as fast "
        f"as FP32 in mxnet 1.9.1, and {over_old} times as fast as FP32 in mxnet-mkl 1.5. In OpenVINO, quantkit's ONNX "
        f"file is {in_openvino} times as fast as FP32 there."
    )


def onnx_file_lines(found: Study) -> Iterator[str]:
    """How it was measured; throughput of quantkit's INT8 ONNX files and the ratios to the engine's own quantizer."""
    yield f"On {_measured(found)}"
    yield ""
    columns = ["network", "batch"]
    for name, other in _ONNX_FILES.items():
        columns += [f"{name.removesuffix(' INT8')}, images/s", f"times {other}"]
    yield from _marked_table(columns, [
        [
            network, str(batch),
            *(
                text
                for name, other in _ONNX_FILES.items()
                for text in (_throughput(found, network, batch, name), _compared(found, network, batch, name, other))
            ),
        ]
        for network, batch in dict.fromkeys((row.network, row.batch) for row in found.rows)
    ])  # fmt: skip


def _factor(found: Study, network: str, batch: int, name: str, other: str) -> Ratio | None:
    """How many times as fast one contestant is as another, in the metric that the cell was measured for."""
    cell, base = (found.cells.get((network, batch, each)) for each in (name, other))
    row = _row(found, network, batch, name)
    return None if cell is None or base is None or row is None else ratio(cell, base, row.metric)


def _compared(found: Study, network: str, batch: int, name: str, other: str) -> str:
    times = _factor(found, network, batch, name, other)
    return "no result" if times is None else marked(_interval(times), found.doubtful(network, batch, name, other))


def _shape(network: str, batch: int) -> str:
    """The layers and units of ``lstm-8x1024-n32``."""
    return network.removeprefix("lstm-").removesuffix(f"-n{batch}").replace("x", f" {TIMES} ")


def _measured(found: Study) -> str:
    """The machine, whose weights are random, and the command."""
    run = found.run
    cores, cpu = (run.host.get(fact, "unknown") for fact in ("usable_cores", "cpu"))
    weights = found.weights_note(each.name for each in run.networks)
    return f"{cores} cores ({cpu}). {weights} `{run.command}`, commit {described(run.revision)}."


def _marked_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from table(columns)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    yield from lines
    if any(LEGEND[0] in line for line in lines):
        yield from ("", LEGEND)


def _row(found: Study, network: str, batch: int, name: str) -> Row | None:
    return next((row for row in found.rows if row.key == (network, batch, name)), None)


def _throughput(found: Study, network: str, batch: int, name: str) -> str:
    row = _row(found, network, batch, name)
    return "no result" if row is None else marked(number(row.throughput), found.doubtful(*row.key))


def _times(found: Study, network: str, batch: int, name: str) -> str:
    return _compared(found, network, batch, name, found.run.baseline)


def _interval(ratio: Ratio) -> str:
    return f"{number(ratio.value)} [{number(ratio.low)}, {number(ratio.high)}]"


def _commit(found: Mapping[str, Any]) -> str:
    revision = found.get("revision")
    return described(Revision(**revision) if revision else None)


def plain_loop_lines(results: Path) -> Iterator[str]:
    """The harness beside a plain timing loop, in turns."""
    for variant in ("int8", "fp32"):
        found = json.loads((results / f"plain-loop-{variant}.json").read_text())
        rounds = len(found["harness_rounds_ms"])
        low, high = found["interval"]
        command = found["command"].partition(" --out ")[0]
        yield (
            f"- `python {command}`, commit {_commit(found)}: {rounds} rounds in turns, "
            f"medians of {found['harness_ms']:.2f} ms (harness) and {found['plain_ms']:.2f} ms (plain loop), ratio "
            f"{found['ratio']:.3f} [{low:.3f}, {high:.3f}]"
        )
