"""What a predictor costs over the engine alone, and what its instances reach of what `quantkit benchmark` measures.

    python benchmarks/predicting.py --out benchmarks/results/predicting

One image: `Predictor.predict` of an image that is preprocessed already, and the engine's own call, which runs the bound
network and waits for it, in turns as in turns.py; the difference is Python, and copying the image and the outputs.
Pixels: preprocessing a batch of pixels and running it, as float32, which the network quantizes, and as the integers
that it would make of them, as predictors do. Instances: images per second of `predict` with an instance on each core,
of images that are preprocessed already and of pixels, and of the benchmark's instances in the same places, in turns of
a second each, random order; the benchmark's repeat one batch that they hold. INT8 networks with random weights, which
are as fast as trained ones. OUT.json has every reading. Nothing else may run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Optional

import numpy as np
from command_line import Document, described, host_facts, run, table, write_results
from turns import Ticks, command_of, measured, milliseconds, ratio, timing_arguments

import quantkit
from quantkit.backends.registry import MXNET
from quantkit.benchmark.builds.environments import HERE, open_build
from quantkit.benchmark.measuring.binding import launch
from quantkit.benchmark.measuring.team import Team
from quantkit.benchmark.results.statistics import work
from quantkit.benchmark.workers.worker_mxnet import Network
from quantkit.bundle.file_names import PARAMS, SYMBOL
from quantkit.bundle.read import read_bundle
from quantkit.deployment.inputs import InputReader
from quantkit.deployment.network import open_network
from quantkit.errors import UserError
from quantkit.files.folders import scratch_folder

NETWORKS = ("cifar_resnet20_v1", "mobilenet0.25", "mobilenet1.0", "resnet50_v1")
BATCHES = (1, 8)
PIXEL_BATCHES = (1, 16)

ENGINE, PREDICTOR = "engine", "predictor"
VALUES, INTEGERS = "values", "integers"
BENCHMARK, INSTANCES, OF_PIXELS = "benchmark", "instances", "instances, pixels"
_SECONDS = 1.0
_PATIENCE = 120.0
_COLUMNS = ("network", "rounds", "engine, µs", "predict, µs", "more, µs")
_PIXEL_COLUMNS = ("network", "batch", "rounds", "as float32, ms", "as integers, ms", "float32 / integers")
_POOL_COLUMNS = (
    "network",
    "batch",
    "rounds",
    "benchmark, images/s",
    "preprocessed, images/s",
    "share",
    "pixels, images/s",
    "share with pixels",
)


@dataclass(frozen=True)
class Cell:
    """A network at a batch size; ``ticks`` are the readings in ms by form, for instances those of an image."""

    network: str
    batch: int
    ticks: Ticks


def main() -> None:
    """Measure every network named on the command line."""
    options = timing_arguments(__doc__, rounds=10, runs=300).parse_args()
    names = [name for name in NETWORKS if not options.network or any(part in name for part in options.network)]
    alone: list[Cell] = []
    pixels: list[Cell] = []
    pooled: list[Cell] = []
    for name in names:
        with scratch_folder() as scratch:
            directory = bundle_of(name, scratch / "bundle")
            alone.append(Cell(name, 1, one_image(directory, options.rounds, options.runs)))
            print(alone_line(alone[-1]), flush=True)
            for batch in PIXEL_BATCHES:
                pixels.append(Cell(name, batch, of_pixels(directory, batch, options.rounds, options.runs)))
                print(pixels_line(pixels[-1]), flush=True)
            for batch in BATCHES:
                pooled.append(Cell(name, batch, instances(directory, batch, options.rounds)))
                print(pooled_line(pooled[-1]), flush=True)
    if options.out is not None:
        cells = {"one_image": alone, "pixels": pixels, "instances": pooled}
        figures = {part: [asdict(each) for each in ones] for part, ones in cells.items()}
        write_results(options.out, command_of("predicting", options), host_facts(), figures, page)


def bundle_of(name: str, directory: Path) -> Path:
    """The network in INT8 with random weights, written as a bundle."""
    model = quantkit.load_model(name, weights="random", quiet=True)
    return quantkit.quantize(model, config=quantkit.QuantizationConfig(num_samples=4, preset="none")).save(directory)


def one_image(directory: Path, rounds: int, runs: int) -> Ticks:
    """The latencies of the engine's own call and of ``predict``."""
    predictor = quantkit.load(directory, allow_random_weights=True)
    image = _images(predictor, 1)[0]
    network = Network(_files(directory), len(os.sched_getaffinity(0)))
    network.bind(predictor.manifest.input.name, image[None])
    return measured({ENGINE: lambda: network.run, PREDICTOR: lambda: partial(predictor.predict, image)}, rounds, runs)


def of_pixels(directory: Path, batch: int, rounds: int, runs: int) -> Ticks:
    """The latencies of preprocessing and running a batch of pixels as float32 and as integers."""
    bundle = read_bundle(directory)
    shape = bundle.manifest.input.shape
    pixels = _pixels(bundle.preprocess, shape, batch)

    def preprocess_and_run(form: str) -> Callable[[], object]:
        network = open_network(bundle, MXNET.name)
        if network.quantizer is None:
            raise UserError(f"the network in {directory} does not quantize its input")
        reader = InputReader(shape, bundle.preparation, quantizer=network.quantizer if form == INTEGERS else None)
        return lambda: [network.run(each) for each in reader.batches(pixels)]

    forms = (VALUES, INTEGERS)
    return measured({form: partial(preprocess_and_run, form) for form in forms}, rounds, max(10, runs // batch))


def instances(directory: Path, batch: int, rounds: int) -> Ticks:
    """The time of an image in the benchmark's instances and in those of a predictor, one on each core."""
    spread = quantkit.Instances("core", batch=batch)
    build = open_build(HERE)
    launches = [launch(build, "int8", placement) for placement in spread.placements()]
    predictor = quantkit.load(directory, allow_random_weights=True, instances=spread)
    with predictor, Team(launches) as team, scratch_folder() as scratch:
        images = _images(predictor, batch)
        np.save(scratch / "images.npy", images)
        team.load({role: Path(file) for role, file in _files(directory).items()}, _PATIENCE)
        team.bind(predictor.manifest.input.name, scratch / "images.npy", _PATIENCE)
        team.warm(_SECONDS, 1, _PATIENCE)
        number = max(64, int(_SECONDS / _of_benchmark(team, batch)))
        many, pixels = _images(predictor, number), _pixels(predictor.preprocess, predictor.input_shape, number)
        forms = {
            BENCHMARK: lambda: _of_benchmark(team, batch),
            INSTANCES: lambda: _of_predictor(predictor, many),
            OF_PIXELS: lambda: _of_predictor(predictor, pixels),
        }
        for warm_up in (many, pixels):
            predictor.predict(warm_up)
        shuffled = random.Random(0)
        ticks: dict[str, list[list[float]]] = {form: [] for form in forms}
        for _ in range(rounds):
            for form in shuffled.sample(list(forms), len(forms)):
                ticks[form].append([1e3 * forms[form]()])
    return ticks


def _of_benchmark(team: Team, batch: int) -> float:
    """The seconds of an image in one turn of the benchmark's instances."""
    turn = team.measure(_SECONDS, _PATIENCE)
    low, high = turn.window
    return (high - low) / 1e9 / (batch * sum(work(ticks, low, high) for ticks in turn.instances))


def _of_predictor(predictor: quantkit.Predictor, images: np.ndarray) -> float:
    """The seconds of an image when a predictor is given many."""
    begin = perf_counter()
    predictor.predict(images)
    return (perf_counter() - begin) / len(images)


def _images(predictor: quantkit.Predictor, number: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(number, *predictor.input_shape)).astype(np.float32)


def _pixels(preprocess: Optional[quantkit.Preprocess], shape: tuple[int, ...], number: int) -> np.ndarray:
    """Images of the size that nothing scales."""
    side = shape[-1] if preprocess is None or preprocess.resize is None else preprocess.resize
    return np.random.default_rng(0).integers(0, 256, (number, side, side, 3), dtype=np.uint8)


def _files(directory: Path) -> dict[str, str]:
    return {"symbol": str(directory / SYMBOL), "params": str(directory / PARAMS)}


def page(document: Document) -> str:
    """The page of a run's JSON."""
    alone = (alone_line(Cell(**each)) for each in document["one_image"])
    pixels = (pixels_line(Cell(**each)) for each in document["pixels"])
    pooled = (pooled_line(Cell(**each)) for each in document["instances"])
    parts = (
        described(document),
        "One image that is preprocessed already: the engine's own call, `predict`, and what that takes more.",
        "\n".join([*table(_COLUMNS), *alone]),
        "Preprocessing and running a batch of pixels, as float32 and as the integers that the network makes of it. The "
        "images have the size that is only cropped; scaling and decoding take the same time in both.",
        "\n".join([*table(_PIXEL_COLUMNS), *pixels]),
        "Many images at once, preprocessed already and as pixels, with an instance on each core, against the instances "
        "of `quantkit benchmark` in the same places, which repeat one float32 batch. The process that hands images out "
        "preprocesses them, too, on the same cores.",
        "\n".join([*table(_POOL_COLUMNS), *pooled]),
    )
    return "\n\n".join(parts) + "\n"


def alone_line(cell: Cell) -> str:
    """A row of the first table, in µs."""
    engine, predict = (1e3 * np.array([median(one) for one in cell.ticks[form]]) for form in (ENGINE, PREDICTOR))
    facts = (cell.network, str(len(engine)), f"{median(engine):.0f}", f"{median(predict):.0f}")
    return f"| {' | '.join((*facts, _with_interval(predict - engine)))} |"


def pixels_line(cell: Cell) -> str:
    """A row of the second table."""
    times = (milliseconds(cell.ticks, form) for form in (VALUES, INTEGERS))
    facts = (cell.network, str(cell.batch), str(len(cell.ticks[INTEGERS])), *times)
    return f"| {' | '.join((*facts, ratio(cell.ticks, VALUES, INTEGERS)))} |"


def pooled_line(cell: Cell) -> str:
    """A row of the third table."""
    facts = [cell.network, str(cell.batch), str(len(cell.ticks[INSTANCES])), _rate(cell, BENCHMARK)]
    for form in (INSTANCES, OF_PIXELS):
        facts += [_rate(cell, form), ratio(cell.ticks, BENCHMARK, form)]
    return f"| {' | '.join(facts)} |"


def _rate(cell: Cell, form: str) -> str:
    return f"{median(1e3 / one[0] for one in cell.ticks[form]):.0f}"


def _with_interval(differences: np.ndarray) -> str:
    """The mean over rounds, and its 95 % percentile bootstrap interval (Efron 1979)."""
    from scipy.stats import bootstrap

    interval = bootstrap((differences,), np.mean, method="percentile", random_state=0).confidence_interval
    return f"{differences.mean():.0f} [{interval.low:.0f}, {interval.high:.0f}]"


if __name__ == "__main__":
    run(main)
