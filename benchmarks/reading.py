"""How fast images are read from a folder, from RecordIO shards and from an .npz file, and how fast they are packed.

    python benchmarks/reading.py --out benchmarks/results/reading

The images are those of $QUANTKIT_REAL_DATA. Reading is a whole pass: images are read, decoded, scaled, cut and put into
batches, by as many threads as an evaluation has; nothing computes beside it. Forms take turns, in an order drawn anew
each round, after a pass that brings all files into the page cache. OUT.json has the seconds of every pass.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Optional

import numpy as np
from command_line import Document, arguments, data_root, host_facts, rows_page, run, table, write_results

from quantkit.data.batch_stream import BatchStream
from quantkit.data.pack import Packing, pack
from quantkit.data.preprocess import Preprocess
from quantkit.data.sources import load_data
from quantkit.errors import QuantkitError

_SIDE, _RESIZE = 224, 256
_BATCH = 8

COLUMNS = ("work", "images", "MB on disk", "images/s", "slowest", "fastest")

Pass = Callable[[Path], Optional[int]]


@dataclass(frozen=True)
class Timed:
    """One pass over all images; ``size`` is that of the files that are read, or written, in bytes."""

    work: str
    images: int
    size: int
    round: int
    seconds: float


def main() -> None:
    """Measure all forms."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="passes over each form")
    options = parser.parse_args()
    folder = data_root() / "imagenet"
    with TemporaryDirectory() as place:
        found = list(measured(folder, Path(place), options.rounds))
    figures = {"passes": [asdict(each) for each in found]}
    print("\n".join([*table(COLUMNS), *lines(figures)]))
    if options.out is not None:
        host = {**host_facts(), "cores": str(len(os.sched_getaffinity(0)))}
        command = f"python benchmarks/reading.py --rounds {options.rounds}"
        write_results(options.out, command, host, figures, page)


def measured(folder: Path, place: Path, rounds: int) -> Iterator[Timed]:
    """Every pass over the images of a folder; ``place`` takes their other forms."""
    count = len(load_data(str(folder)))
    forms = {
        "read a folder of PNG files": folder,
        "read shards of the same files": place / "shards",
        f"read shards of JPEG files, short side {_RESIZE}": place / "resized",
        "read an .npz file of pixels": place / "pixels.npz",
    }
    pack(str(folder), place / "shards")
    pack(str(folder), place / "resized", Packing(resize=_RESIZE))
    np.savez(place / "pixels.npz", x=np.stack([sample.image for sample in load_data(str(folder))]))
    works: dict[str, tuple[Pass, Path]] = {name: (_read, path) for name, path in forms.items()}
    works["pack the files as they are"] = partial(_pack, place / "again", Packing()), folder
    works[f"pack JPEG files, short side {_RESIZE}"] = partial(_pack, place / "again", Packing(resize=_RESIZE)), folder
    shuffled = random.Random(0)
    for number in range(rounds + 1):
        for name in shuffled.sample(list(works), len(works)):
            work, path = works[name]
            begun = perf_counter()
            size = work(path)
            seconds = perf_counter() - begun
            if number:
                yield Timed(name, count, size or _size(path), number, seconds)


def _read(path: Path) -> Optional[int]:
    """Read all images as a network of the usual preprocessing does; gives nothing."""
    samples = load_data(str(path))
    stream = BatchStream(samples, Preprocess(resize=_RESIZE, crop=_SIDE), (3, _SIDE, _SIDE), _BATCH)
    seen = sum(len(batch.data) for batch in stream)
    if seen != len(samples):
        raise QuantkitError(f"{path} gave {seen} of {len(samples)} images")
    return None


def _pack(out: Path, packing: Packing, folder: Path) -> int:
    """Pack all images; gives the bytes of the shards."""
    return pack(folder, out, packing, force=True).size


def _size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(each.stat().st_size for each in files if each.is_file())


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        f"Medians over rounds, with the slowest and the fastest. Images of 299 x 299 pixels, scaled to {_RESIZE} and "
        f"cut to {_SIDE} x {_SIDE} where they are read. All files are in the page cache; on shared file systems few "
        "large files gain more."
    )
    return rows_page(document, COLUMNS, lines(document), note)


def lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table of a run's JSON."""
    found = [Timed(**each) for each in figures["passes"]]
    for work in dict.fromkeys(sorted(each.work for each in found)):
        own = [each for each in found if each.work == work]
        rates = [each.images / each.seconds for each in own]
        yield (
            f"| {work} | {own[0].images} | {own[0].size / 1e6:.1f} | {median(rates):.0f} | {min(rates):.0f} | "
            f"{max(rates):.0f} |"
        )


if __name__ == "__main__":
    run(main)
