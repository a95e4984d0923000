"""Every network of GluonCV's zoo, by name: loaded, fused, quantized, written as ONNX, and run in three engines.

    python benchmarks/zoo.py --out benchmarks/results/zoo
    python benchmarks/zoo.py --network ssd_300 --network yolo3_mobilenet --out zoo
    python benchmarks/zoo.py --share 2/4 --out zoo-2
    python benchmarks/zoo.py --known zoo-1.json --known zoo-2.json --out benchmarks/results/zoo

Networks have random weights, one sample and no algorithms: layers, sizes and kernels are those of trained ones, and
how far INT8 deviates from FP32 only shows that nothing is broken. Fusion is checked numerically as always. All stages
run at batch 1. Each network has a process of its own, with a bound of time and of memory. One that reads images and
needs more memory is tried at half its height and width, and at a quarter, and the row of the size at which it gets
furthest is kept; it names the size. A network that stops early has a row of what it reached, and why it stopped. Each
row names the commit and the host that measured it. GluonCV's own INT8 networks are not measured: their rows name the
networks that quantkit quantizes in their place.

Rows that OUT.json has already are kept, so that a run that was ended goes on; --retry measures those anew that have a
problem, --again all that are asked for. --known takes rows from other runs; of two of a network the one measured last
is kept. --share 2/4 takes every fourth network from the second on; several shares may run at a time, into the same
OUT.json. Kernels are what the engines say that they ran. Needs the extras onnx, onnxruntime and openvino.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, Optional

from command_line import arguments, run
from zoo_file import Cells, changing, file_of, known_rows, mend_page, newest
from zoo_page import line, troubles
from zoo_rows import blank, rows_of

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.errors import QuantkitError
from quantkit.host.dependent import dependent
from quantkit.models.catalogue import Entry, catalogue

# How often the sides of images are halved for a network that needs more memory than it may have.
_HALVINGS = 2
_IMAGE_AXES = 3
_TOO_MUCH_MEMORY = re.compile(
    "bad_alloc|bad allocation|MemoryError|[Cc]annot allocate|[Oo]ut of memory|more memory than it may have|"
    # The stack of a thread is memory, too.
    "can't start new thread|Resource temporarily unavailable|"
    # Killed by the kernel, for want of memory.
    r"the process ended with -9\b"
)
_STAGES = ("nothing", "loaded", "fused", "quantized", "exported")


def main() -> None:
    """Take every network that the command line asks for."""
    options = asked_for()
    if options.alone is not None:
        for reached in rows_of(entry_of(options.alone), options.gigabytes, options.halved):
            # On a line of its own, whatever the engines print.
            print(f"\n{json.dumps(asdict(reached))}", flush=True)
        return
    if options.known:
        taken = [known_rows(file) for file in options.known]
        with changing(options.out) as rows:
            rows.update(newest(*taken, rows))
    for entry in chosen(options.network, options.share):
        # Read each time: another run may have measured it meanwhile.
        known = None if options.out is None else known_rows(file_of(options.out)).get(entry.name)
        if known is not None and not options.again and not (options.retry and troubles(known)):
            continue
        row = row_of(entry, options.minutes, options.gigabytes)
        print(line(row), flush=True)
        if options.out is not None:
            with changing(options.out) as rows:
                rows[entry.name] = row
    if options.out is not None:
        mend_page(options.out)


def asked_for() -> argparse.Namespace:
    """The options of the command line; the process ends with a message where they make no sense."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=positive, default=15.0, help="at most for each network")
    parser.add_argument("--gigabytes", type=positive, default=12.0, help="of memory at most")
    parser.add_argument("--share", type=share, default=(1, 1), metavar="K/N", help="every Nth network from the Kth on")
    parser.add_argument("--known", type=Path, action="append", default=[], help="take over the rows of this JSON file")
    parser.add_argument("--again", action="store_true", help="measure anew what has a row")
    parser.add_argument("--retry", action="store_true", help="measure anew what has a row with a problem")
    parser.add_argument("--alone", metavar="NAME", help="one network in this process, as JSON on standard output")
    parser.add_argument("--halved", type=int, default=0, help="how often the sides of its images are halved")
    options = parser.parse_args()
    if missing := [file for file in options.known if not file.is_file()]:
        parser.error(f"there is no file {missing[0]}; --known takes the JSON file of another run")
    if options.known and options.out is None:
        parser.error("--known takes rows over into OUT.json; give --out, too")
    if nameless := [part for part in options.network or () if not chosen([part])]:
        parser.error(f"no network's name contains {nameless[0]!r}; `quantkit models '*'` lists the zoo")
    return options


def positive(text: str) -> float:
    """A finite number above 0.

    Raises:
        ArgumentTypeError: it is something else.
    """
    with suppress(ValueError):
        number = float(text)
        if isfinite(number) and number > 0:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")


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


def zoo() -> list[Entry]:
    """GluonCV's networks, in the order of the catalogue."""
    names = set(zoo_names())
    return [entry for entry in catalogue() if entry.name in names]


def chosen(parts: Optional[Sequence[str]], share: tuple[int, int] = (1, 1)) -> list[Entry]:
    """The networks of GluonCV whose name contains one of ``parts``, all without any; of these a share."""
    named = [entry for entry in zoo() if not parts or any(part in entry.name for part in parts)]
    first, step = share
    return named[first - 1 :: step]


def entry_of(name: str) -> Entry:
    """The entry of a name.

    Raises:
        QuantkitError: there is none.
    """
    for entry in zoo():
        if entry.name == name:
            return entry
    raise QuantkitError(f"there is no network {name!r} in the zoo")


def row_of(entry: Entry, minutes: float, gigabytes: float) -> Cells:
    """The row of a network; of one of GluonCV's own INT8 networks, which one is quantized in its place."""
    if entry.quantized_as is not None:
        return asdict(replace(blank(entry, gigabytes), quantized_as=entry.quantized_as))
    return {**fitting(entry, minutes, gigabytes), "minutes": minutes}


def fitting(entry: Entry, minutes: float, gigabytes: float) -> Cells:
    """The row of a network at its own size, or at the half of it at which its memory suffices for more stages.

    All sizes together may take ``minutes``.
    """
    row = best = alone(entry, minutes, gigabytes)
    spent = row["seconds"]
    for halved in range(1, _HALVINGS + 1):
        left = minutes - spent / 60
        if left <= 0 or len(entry.input_shape) != _IMAGE_AXES or not _TOO_MUCH_MEMORY.search("\n".join(troubles(row))):
            break
        row = alone(entry, left, gigabytes, halved)
        spent += row["seconds"]
        if _progress(row) > _progress(best):
            best = {**row, "full_input": best["full_input"] or best["input"]}
    return {**best, "seconds": spent}


def _progress(row: Mapping[str, Any]) -> tuple[int, int]:
    """How far a network got: the stages, then the engines that ran it."""
    return _STAGES.index(row["reached"]), sum(not engine["problem"] for engine in row["engines"].values())


def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> Cells:
    """The row of a network, made in a process of its own: that of the last stage before the process ended."""
    own = ["--alone", entry.name, "--gigabytes", f"{gigabytes:g}", "--halved", str(halved)]
    began = perf_counter()
    problem = ""
    try:
        command = dependent([sys.executable, __file__, *own])
        done = subprocess.run(command, capture_output=True, timeout=60 * minutes, check=False)
        printed = done.stdout
        if done.returncode != 0:
            problem = f"the process ended with {done.returncode}: {_last_words(done.stderr)}"
    except subprocess.TimeoutExpired as error:
        printed, problem = error.stdout or b"", f"not done after {minutes:.3g} minutes"
    row = _last_row(printed) or asdict(blank(entry, gigabytes, halved))
    if not problem:
        return row
    return {**row, "problem": row["problem"] or problem, "seconds": perf_counter() - began}


def _last_row(printed: bytes) -> Optional[Cells]:
    """The row that a process printed last; the end of its output may be half a row, or an engine's words."""
    for text in reversed(printed.decode(errors="replace").splitlines()):
        with suppress(json.JSONDecodeError):
            row = json.loads(text)
            if isinstance(row, dict):
                return row
    return None


def _last_words(printed: bytes) -> str:
    """The line that tells of too little memory, else the last one."""
    lines = printed.decode(errors="replace").strip().splitlines() or ["nothing was printed"]
    return next(filter(_TOO_MUCH_MEMORY.search, lines), lines[-1])


if __name__ == "__main__":
    run(main)
