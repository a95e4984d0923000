"""Whether a Predictor that runs for long keeps its memory, its descriptors and its threads: 100,000 predictions.

    python benchmarks/soak.py --out benchmarks/results/soak

The digits network that ships, in INT8, predicts in each engine from several threads at once: mostly one image of uint8
pixels, every sixteenth time a batch of 1 to 16. Each engine has a process of its own, whose resident memory, open
descriptors and threads are read 200 times. Of these readings the first fifth is warm-up: allocators and engines make
room for each size of batch and each thread. The rest is cut into 20 equal parts, since neighbours are alike, and a line
is fitted to their means by least squares, with Student's 95 % interval of its slope.

Memory is flat where the slope's interval ends below 16 bytes a prediction: malloc gives 32 bytes at least, so that
not even every second prediction may lose a block. Descriptors and threads are flat where they never exceed what they
were at the end of the warm-up. The exit code is 1 where something is not flat. No time is measured.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from command_line import Document, rows_page, run, table, write_results
from scipy import stats

from quantkit.api import quantize
from quantkit.backends.base import session_threads
from quantkit.backends.registry import DEPLOYED
from quantkit.bundle import quantized_model, read_bundle
from quantkit.data.builtin import digits
from quantkit.data.samples import take
from quantkit.deployment.network import usable_engines
from quantkit.deployment.predictor import Predictor
from quantkit.host.cpu import read_cpu
from quantkit.quantization.config import QuantizationConfig

_NETWORK = "digits_resnet20_v1"
_READINGS, WARM_UP, _PARTS = 200, 0.2, 20
MOST_BYTES = 16.0
_IMAGES, _LARGEST = 64, 16

_COLUMNS = (
    "engine", "memory, MB: first reading", "warm", "last", "bytes a prediction", "descriptors", "threads", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Soak:
    """The readings of one engine: after how many predictions, and the bytes, descriptors and threads at these times."""

    engine: str
    predictions: tuple[int, ...]
    memory: tuple[int, ...]
    descriptors: tuple[int, ...]
    threads: tuple[int, ...]


@dataclass(frozen=True)
class Slope:
    """Bytes a prediction, with the ends of the 95 % interval."""

    value: float
    low: float
    high: float


def main() -> None:
    """Soak every engine that is installed, or those named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write OUT.md and OUT.json")
    parser.add_argument("--engine", action="append", choices=DEPLOYED, help="only this one; may be repeated")
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    print("\n".join(table(_COLUMNS)), flush=True)
    found: list[Soak] = []
    with tempfile.TemporaryDirectory() as folder:
        bundle = _bundle(Path(folder))
        versions = usable_engines(read_bundle(bundle))
        for engine in options.engine or versions:
            # A process apart: what one engine keeps is not counted as the next one's.
            with get_context("spawn").Pool(1) as pool:
                found.append(pool.apply(soak, (bundle, engine, options.predictions, options.threads)))
            print(_line(found[-1]), flush=True)
    if options.out is not None:
        _write(options, versions, found)
    if not all(is_flat(each) for each in found):
        sys.exit("memory, descriptors or threads grow")


def soak(bundle: Path, engine: str, predictions: int, threads: int) -> Soak:
    """Predict from several threads at once with one Predictor, and read this process's memory meanwhile."""
    predictor = Predictor(read_bundle(bundle), engine=engine)
    pixels = np.stack([sample.image for sample in take(digits("test"), _IMAGES)])
    numbers = itertools.count()
    done = [0] * threads
    failed: list[BaseException] = []

    def work(place: int) -> None:
        try:
            # One call of a C function is not divided between threads.
            while (number := next(numbers)) < predictions and not failed:
                predictor.predict(_images(pixels, number))
                done[place] += 1
        except BaseException as error:
            failed.append(error)

    rows = np.zeros((_READINGS, 4), np.int64)
    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for index in range(_READINGS):
        # The last reading is taken while all threads still work.
        wanted = (index + 1) * predictions // (_READINGS + 1)
        while sum(done) < wanted and not failed:
            time.sleep(0.01)
        rows[index] = (sum(done), *_reading())
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    columns = (tuple(column) for column in rows.T.tolist())
    return Soak(engine, *columns)


def _images(pixels: np.ndarray, number: int) -> np.ndarray:
    start = number % (_IMAGES - _LARGEST)
    return pixels[start] if number % 16 else pixels[start : start + 1 + number // 16 % _LARGEST]


def _reading() -> tuple[int, int, int]:
    """Bytes of resident memory, open descriptors and threads of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    # Listing the folder opens a descriptor itself.
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
    return int(status["VmRSS"].split()[0]) * 1024, descriptors, int(status["Threads"])


def slope_of(predictions: Sequence[float], memory: Sequence[int], parts: int = _PARTS) -> Slope:
    """The growth of memory after the warm-up, in so many parts, see above."""
    start = int(len(memory) * WARM_UP)
    x = [np.mean(part) for part in np.array_split(np.asarray(predictions[start:], float), parts)]
    y = [np.mean(part) for part in np.array_split(np.asarray(memory[start:], float), parts)]
    if min(y) == max(y):
        return Slope(0.0, 0.0, 0.0)
    fit = stats.linregress(x, y)
    half = float(stats.t.ppf(0.975, parts - 2) * fit.stderr)
    return Slope(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def is_flat(soaked: Soak) -> bool:
    """Whether nothing grows, see above."""
    start = int(_READINGS * WARM_UP)
    counts = (soaked.descriptors, soaked.threads)
    steady = all(max(count[start:]) <= count[start] for count in counts)
    return steady and slope_of(soaked.predictions, soaked.memory).high < MOST_BYTES


def _bundle(folder: Path) -> Path:
    network = quantize(_NETWORK, "digits:train", QuantizationConfig(num_samples=32, preset="none"))
    return network.save(folder / "bundle", formats=quantized_model.FORMATS)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, (_line(Soak(**each)) for each in document["engines"]))


def _line(soaked: Soak) -> str:
    start = int(_READINGS * WARM_UP)
    slope = slope_of(soaked.predictions, soaked.memory)
    memory = (f"{soaked.memory[index] / 1e6:.1f}" for index in (0, start, -1))
    cells = [soaked.engine, *memory, f"{slope.value:+.2f} [{slope.low:+.2f}, {slope.high:+.2f}]"]
    cells += (f"{count[start]} to {max(count[start:])}" for count in (soaked.descriptors, soaked.threads))
    return "| " + " | ".join([*cells, "flat" if is_flat(soaked) else "GROWS"]) + " |"


def _write(options: argparse.Namespace, versions: Mapping[str, str], found: Sequence[Soak]) -> None:
    engines = "".join(f" --engine {engine}" for engine in options.engine or ())
    command = f"python benchmarks/soak.py{engines} --predictions {options.predictions} --threads {options.threads}"
    host = {"cpu": read_cpu().model, "threads": str(session_threads()), "python": platform.python_version(), **versions}
    slopes = {each.engine: asdict(slope_of(each.predictions, each.memory)) for each in found}
    write_results(options.out, command, host, {"slopes": slopes, "engines": [asdict(each) for each in found]}, page)


if __name__ == "__main__":
    run(main)
