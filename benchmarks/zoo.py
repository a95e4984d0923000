"""Every network of GluonCV's zoo, by name: loaded, fused, quantized, written as ONNX, and run in three engines.

    python benchmarks/zoo.py --out benchmarks/results/zoo
    python benchmarks/zoo.py --network ssd_300 --network yolo3_mobilenet --out zoo
    python benchmarks/zoo.py --share 2/4 --out zoo-2
    python benchmarks/zoo.py --known zoo-1.json --known zoo-2.json --out benchmarks/results/zoo

Networks have random weights, one sample and no algorithms: layers, sizes and kernels are those of trained ones, and
how far INT8 deviates from FP32 only shows that nothing is broken. Fusion is checked numerically as always. All stages
run at batch 1. Each network has a process of its own, with a bound of time and of memory. One that reads images and
needs more memory is tried at half its height and width, and at a quarter; its row names the size. A network that stops
early has a row that says where and why. Rows that OUT.json has already are kept, so that a run that was ended goes on;
--again measures them anew, and --known takes rows from other runs. --share 2/4 takes every fourth network from the
second on. Kernels are what the engines say that they ran. Needs the extras onnx, onnxruntime and openvino.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, Optional

import numpy as np
from command_line import Document, arguments, described, host_facts, run, table, write_results

from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.bundle import read_bundle
from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
from quantkit.diagnosis.coverage import Coverage, coverage
from quantkit.diagnosis.parity.check import engine_parity
from quantkit.errors import QuantkitError
from quantkit.fusion.fused_model import fuse_model
from quantkit.models.catalogue import Entry, catalogue
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.ptq_config import NO_ALGORITHMS

_SAMPLES = 1
_COVERED = 0.97

# How often the sides of images are halved for a network that needs more memory than it may have.
_HALVINGS = 2
_IMAGE_AXES = 3
_TOO_MUCH_MEMORY = re.compile(
    "bad_alloc|bad allocation|MemoryError|[Cc]annot allocate|[Oo]ut of memory|more memory than it may have|"
    # The stack of a thread is memory, too.
    "can't start new thread|Resource temporarily unavailable"
)
_COLUMNS = (
    "network", "task", "input", "layers in INT8", "of MACs %", "cosine with FP32", "fusion's deviation",
    *(f"{engine}: cosine with MXNet, layers in integers" for engine in DEPLOYED_ONNX), "stopped by",
    "GiB, of at most", "s",
)  # fmt: skip


@dataclass(frozen=True)
class InEngine:
    """An ONNX file in an engine: its cosine with MXNet and the layers that ran in integers; or what it failed at."""

    cosine: Optional[float] = None
    integers: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Row:
    """What became of one network.

    ``reached`` is the last stage that succeeded: nothing, loaded, fused, quantized or exported. ``problem`` is why the
    next one did not. ``fusion`` is the largest relative deviation of fused FP32, ``cosine`` that of INT8 with FP32.
    ``bound`` is the memory that its process may have, ``peak`` what it had at most, in GiB; ``full_input`` is the input
    that needed more.
    """

    network: str
    task: str
    input: str
    reached: str = "nothing"
    problem: str = ""
    fusion: Optional[float] = None
    cosine: Optional[float] = None
    coverage: Optional[Coverage] = None
    engines: Mapping[str, InEngine] = field(default_factory=dict)
    seconds: float = 0.0
    bound: float = 0.0
    peak: float = 0.0
    full_input: str = ""


def main() -> None:
    """Take every network that the command line asks for."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=15.0, help="at most for each network")
    parser.add_argument("--gigabytes", type=float, default=12.0, help="of memory at most")
    parser.add_argument("--share", type=share, default=(1, 1), metavar="K/N", help="every Nth network from the Kth on")
    parser.add_argument("--known", type=Path, action="append", default=[], help="take over the rows of this JSON file")
    parser.add_argument("--again", action="store_true", help="measure networks anew that OUT.json has")
    parser.add_argument("--alone", metavar="NAME", help="one network in this process, as JSON on standard output")
    parser.add_argument("--halved", type=int, default=0, help="how often the sides of its images are halved")
    options = parser.parse_args()
    if options.alone is not None:
        print(json.dumps(asdict(row_of(entry_of(options.alone), options.gigabytes, options.halved))))
        return
    if missing := [file for file in options.known if not file.is_file()]:
        parser.error(f"there is no file {missing[0]}; --known takes the JSON file of another run")
    files = [*options.known, *([] if options.again or options.out is None else [_json_of(options.out)])]
    rows = {name: row for file in files for name, row in known_rows(file).items()}
    command = f"python benchmarks/zoo.py --minutes {options.minutes:g} --gigabytes {options.gigabytes:g}"
    command += "".join(f" --network {part}" for part in options.network or ())
    command += "" if options.share == (1, 1) else " --share {}/{}".format(*options.share)

    def write() -> None:
        if options.out is not None:
            write_results(options.out, command, host_facts(), {"rows": list(rows.values())}, page)

    for entry in chosen(options.network, options.share):
        if entry.name in rows:
            continue
        rows[entry.name] = fitting(entry, options.minutes, options.gigabytes)
        print(_line(rows[entry.name]), flush=True)
        write()
    if options.known:
        write()


def share(text: str) -> tuple[int, int]:
    """The two numbers of ``K/N``, with K from 1 to N.

    Raises:
        ArgumentTypeError: it is something else.
    """
    parsed = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
    part, parts = (int(each) for each in parsed.groups()) if parsed else (0, 0)
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 2/4")
    return part, parts


def chosen(parts: Optional[Sequence[str]], share: tuple[int, int] = (1, 1)) -> list[Entry]:
    """The networks of GluonCV whose name contains one of ``parts``, all without any; of these a share."""
    zoo = [entry for entry in catalogue() if entry.card is None or entry.card.network == entry.name]
    named = [entry for entry in zoo if not parts or any(part in entry.name for part in parts)]
    first, step = share
    return named[first - 1 :: step]


def entry_of(name: str) -> Entry:
    """The entry of a name.

    Raises:
        QuantkitError: there is none.
    """
    for entry in catalogue():
        if entry.name == name:
            return entry
    raise QuantkitError(f"there is no network {name!r} in the zoo")


def _json_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.json")


def known_rows(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of an earlier run by network; none where there is no file."""
    if not path.exists():
        return {}
    return {row["network"]: row for row in json.loads(path.read_text())["rows"]}


def fitting(entry: Entry, minutes: float, gigabytes: float) -> dict[str, Any]:
    """The row of a network at its own size, or at the largest half of it that its memory suffices for."""
    row = alone(entry, minutes, gigabytes)
    full_input, spent = row["input"], row["seconds"]
    for halved in range(1, _HALVINGS + 1):
        if len(entry.input_shape) != _IMAGE_AXES or not _TOO_MUCH_MEMORY.search(row["problem"]):
            break
        smaller = alone(entry, minutes, gigabytes, halved)
        spent += smaller["seconds"]
        row = {**smaller, "full_input": full_input, "seconds": spent}
    return row


def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
    """The row of a network, made in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--alone",
        entry.name,
        "--gigabytes",
        f"{gigabytes:g}",
        "--halved",
        str(halved),
    ]
    began = perf_counter()
    blank = _blank(entry, gigabytes, halved)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * minutes, check=False)
    except subprocess.TimeoutExpired:
        return asdict(replace(blank, problem=f"not done after {minutes:g} minutes", seconds=perf_counter() - began))
    with suppress(json.JSONDecodeError, IndexError):
        row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return row
    problem = f"the process ended with {done.returncode}: {_last_words(done.stderr)}"
    return asdict(replace(blank, problem=problem, seconds=perf_counter() - began))


def _last_words(text: str) -> str:
    """The line that tells of too little memory, else the last one."""
    lines = text.strip().splitlines() or ["nothing was printed"]
    return next(filter(_TOO_MUCH_MEMORY.search, lines), lines[-1])


def _blank(entry: Entry, gigabytes: float, halved: int) -> Row:
    return Row(entry.name, entry.task, _input(_shape(entry, halved)), bound=gigabytes)


def _shape(entry: Entry, halved: int) -> tuple[int, ...]:
    channels, *sides = entry.input_shape
    return (channels, *(side >> halved for side in sides))


def row_of(entry: Entry, gigabytes: float, halved: int = 0) -> Row:
    """Take a network through all stages in this process, as far as it goes."""
    most = round(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    began = perf_counter()
    *_, row = stages(_blank(entry, gigabytes, halved), _shape(entry, halved) if halved else None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return replace(row, seconds=perf_counter() - began, peak=peak)


def stages(row: Row, shape: Optional[tuple[int, ...]] = None) -> Iterator[Row]:
    """The row after each stage, for inputs of another shape if one is given; the last row says what stopped it."""
    try:
        model = load_model(row.network, weights="random", input_shape=shape, quiet=True)
        row = replace(row, reached="loaded")
        data = dataset(model, samples(model)).subset(_SAMPLES)
        source = fuse_model(model, data)
        row = replace(row, reached="fused", fusion=source.check.difference)
        ranges = calibrate(source, data, _SAMPLES)
        adjusted = apply_algorithms(source, ranges, plan(source, ranges), data, NO_ALGORITHMS)
        quantized = measure_agreement(lower(source, ranges, adjusted), data)
        assert quantized.agreement is not None
        covered = coverage(quantized.source.fused, quantized.plan.decisions.values())
        cosine = min((output.cosine for output in quantized.agreement.outputs if isfinite(output.cosine)), default=None)
        row = replace(row, reached="quantized", coverage=covered, cosine=cosine)
        yield row
        yield from _in_engines(row, quantized)
    except QuantkitError as error:
        yield replace(row, problem=f"{type(error).__name__}: {error}")
    except MemoryError:
        yield replace(row, problem="more memory than it may have")


def samples(model: Model) -> Any:
    """The built-in photographs where the network reads such; noise elsewhere."""
    if model.preprocess is not None:
        return "builtin"
    return np.random.default_rng(0).standard_normal((_SAMPLES, *model.input_shape), np.float32)


def _in_engines(row: Row, quantized: QuantizedModel) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        bundle = read_bundle(quantized.save(Path(name) / "bundle", formats=("mxnet", "onnx")))
        row = replace(row, reached="exported")
        for engine in DEPLOYED_ONNX:
            try:
                parity = engine_parity(bundle, bundle.onnx() or b"", engine, None, 1)
                count = sum(parity.precision.kernels.values()) if parity.precision else 0
                ran = InEngine(parity.sample.cosine, count)
            except QuantkitError as error:
                ran = InEngine(problem=f"{type(error).__name__}: {error}")
            row = replace(row, engines={**row.engines, engine: ran})
            yield row


def page(document: Document) -> str:
    """The page of a run's JSON: how many got how far, and a table of all."""
    rows = document["rows"]
    quantized = [row for row in rows if row["coverage"]]
    covered = sum(_share(row["coverage"]) >= _COVERED for row in quantized)
    lines = [
        described(document),
        "",
        f"{len(quantized)} of {len(rows)} networks quantize, {covered} of them with at least {100 * _COVERED:g} % of "
        f"the multiply-accumulates in INT8; {sum(row['reached'] == 'exported' for row in rows)} are written as ONNX.",
        "",
        "The others, and why:",
        "",
        *table(("network", "of MACs %", "reason (of MACs %)")),
        *map(_exception, (row for row in rows if not row["coverage"] or _share(row["coverage"]) < _COVERED)),
        "",
        "All of them:",
        "",
        *table(_COLUMNS),
        *map(_line, rows),
        "",
        "What stays in FP32, by reason:",
        "",
        *table(("reason", "networks", "layers")),
        *_left(quantized),
    ]
    return "\n".join(lines) + "\n"


def _exception(row: Mapping[str, Any]) -> str:
    covered = row["coverage"]
    if not covered:
        return f"| {row['network']} |  | {_cell(row['problem'])} |"
    reasons = (f"{left['reason']} ({100 * left['macs'] / covered['macs']:.1f})" for left in covered["left"])
    return f"| {row['network']} | {100 * _share(covered):.1f} | {_cell('; '.join(reasons))} |"


def _line(row: Mapping[str, Any]) -> str:
    covered = row["coverage"]
    engines = (row["engines"].get(engine) for engine in DEPLOYED_ONNX)
    cells = [
        row["network"],
        row["task"],
        row["input"] + (f" ({row['full_input']} needs more memory)" if row["full_input"] else ""),
        f"{covered['int8_layers']} of {covered['layers']}" if covered else "",
        f"{100 * _share(covered):.1f}" if covered else "",
        _number(row["cosine"], ".4f"),
        _number(row["fusion"], ".1e"),
        *(_ran(engine) for engine in engines),
        _cell(row["problem"]),
        f"{row['peak']:.1f} of {row['bound']:g}",
        f"{row['seconds']:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _ran(engine: Optional[Mapping[str, Any]]) -> str:
    if engine is None:
        return ""
    return _cell(engine["problem"]) or f"{_number(engine['cosine'], '.5f')}, {engine['integers']}"


def _left(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    reasons: dict[str, list[int]] = {}
    for row in rows:
        for left in row["coverage"]["left"]:
            reasons.setdefault(left["reason"], []).append(left["layers"])
    for reason, layers in sorted(reasons.items(), key=lambda item: -sum(item[1])):
        yield f"| {_cell(reason)} | {len(layers)} | {sum(layers)} |"


def _share(covered: Mapping[str, int]) -> float:
    return covered["int8_macs"] / covered["macs"] if covered["macs"] else 0.0


def _number(value: Optional[float], form: str) -> str:
    return "" if value is None else format(value, form)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _input(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


if __name__ == "__main__":
    run(main)
