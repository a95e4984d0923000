"""How many images it takes until a monitor tells that a network's images have changed, and what monitoring costs.

    QUANTKIT_REAL_DATA=DATA python benchmarks/watching.py --out benchmarks/results/watching

The networks are those of trained.toml, quantized with the default preset and 500 calibration images, or all if there
are fewer. In each of 100 orders, up to 255 test images in random order come first, which end within some look of the
monitor, and then images that are changed in one way, also in random order; counted are the changed ones until a signal
drifts, where all are watched. Of all test images, unchanged, alarms are counted, as many of which should be as tests
are unlikely. Other data are digits (from scikit-learn) and, for networks of 32 pixels, photographs, for others, images
of CIFAR-10.

The cost is that of `predict` of one preprocessed image after the other with a monitor in its default form, as a ratio
of throughputs, in turns of 64 images within each round, in random order; where all are watched, for comparison. Nothing
else may run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from accuracy_rows import prepared_model
from command_line import (
    ROUNDS,
    Document,
    arguments,
    at_least,
    data_root,
    described,
    host_facts,
    run,
    table,
    write_results,
)
from turns import mean_ratio

import quantkit
from quantkit.bundle import Bundle, read_bundle
from quantkit.data.preprocess import Preprocess, apply
from quantkit.data.samples import Samples
from quantkit.data.sources import load_data
from quantkit.deployment.monitoring import maker_of
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.watching.drift_watch import SIZES, DriftWatch
from quantkit.files.folders import scratch_folder
from quantkit.models.model import Model

Signals = Mapping[str, np.ndarray]

_CALIBRATION, _MOST, _ORDERS, _SMALL = 500, 2000, 100, 64
_NOTHING = "none"

# What is done to pixels before they are preprocessed.
_PIXELS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "channels reversed": lambda image: image[..., ::-1],
    "half as bright": lambda image: (image * 0.5).astype(np.uint8),
    "night: a quarter": lambda image: (image * 0.25).astype(np.uint8),
    "upside down": lambda image: image[::-1],
}
# What is done to the preprocessing.
_PREPROCESSING: Mapping[str, Callable[[Preprocess], Preprocess]] = {
    "no mean, no deviation": lambda given: replace(given, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
    "pixels from 0 to 255": lambda given: replace(given, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale=1.0),
}

_COLUMNS = ("network", "change", "images", "told in", "median", "95 %", "told first by")
_COSTS = ("network", "rounds", "ms a prediction", "default, throughput", "all watched, throughput")


@dataclass(frozen=True)
class Row:
    """A change of a network's images.

    Attributes:
        network: its name.
        change: what is done.
        images: how many there are.
        counts: in each order, the images until a signal drifted; 0 where none did.
        signals: the first signals to drift, in each order in which one did.
        tests: how many tests of every size there were.
    """

    network: str
    change: str
    images: int
    counts: list[int]
    signals: list[str]
    tests: int


@dataclass(frozen=True)
class Cost:
    """The milliseconds of a prediction in each round, without a monitor, with the default one, and with all watched."""

    network: str
    without: list[float]
    default: list[float]
    everything: list[float]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=ROUNDS, default=10)
    parser.add_argument("--changes-only", action="store_true", help="leave out the cost; other work may run")
    parser.add_argument("--seconds", type=at_least(1), default=2, help="of each form in a round")
    options = parser.parse_args()
    root, rows, costs = data_root(), list[Row](), list[Cost]()
    suite = tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    for network in suite["network"]:
        if options.network and not any(part in network["model"] for part in options.network):
            continue
        own = suite["data"][network["data"]]
        calibration, test = (load_data(str(root / own[name])) for name in ("calibration", "test"))
        model = prepared_model(network, suite, root)
        with scratch_folder() as scratch:
            bundle = _bundle(model, calibration, scratch / "net")
            for row in _rows(bundle, test, _others(suite, network["data"], root)):
                rows.append(row)
                print(_line(row), flush=True)
            if not options.changes_only:
                costs.append(_cost(bundle, test, options.rounds, options.seconds))
                print(_cost_line(costs[-1]), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        measured = f"--rounds {options.rounds} --seconds {options.seconds}"
        command = f"python benchmarks/watching.py{parts} {'--changes-only' if options.changes_only else measured}"
        figures = {"rows": [asdict(row) for row in rows], "costs": [asdict(cost) for cost in costs]}
        write_results(options.out, command, host_facts(), figures, page)


def _bundle(model: Model, calibration: Samples, folder: Path) -> Bundle:
    config = quantkit.QuantizationConfig(num_samples=min(_CALIBRATION, calibration.size or _CALIBRATION))
    return read_bundle(quantkit.quantize(model, calibration, config).save(folder))


def _others(suite: Mapping[str, Any], own: str, root: Path) -> Iterator[tuple[str, Samples]]:
    """Other data sets, by their names."""
    yield "digits", load_data("digits:test")
    for name, data in suite["data"].items():
        if name != own:
            yield name, load_data(str(root / data["test"]))


def _rows(bundle: Bundle, test: Samples, others: Iterator[tuple[str, Samples]]) -> Iterator[Row]:
    preprocess, name = bundle.preprocess, bundle.manifest.name
    assert preprocess is not None
    images = _images(test)
    usual = _signals(bundle, preprocess, images)
    yield _row(bundle, name, _NOTHING, usual, usual)
    for change, pixels in _PIXELS.items():
        yield _row(bundle, name, change, usual, _signals(bundle, preprocess, list(map(pixels, images))))
    for change, prepared in _PREPROCESSING.items():
        yield _row(bundle, name, change, usual, _signals(bundle, prepared(preprocess), images))
    for change, samples in others:
        sized = preprocess.crop or preprocess.fit
        fitted = preprocess if sized else replace(preprocess, resize=None, fit="stretch")
        yield _row(bundle, name, change, usual, _signals(bundle, fitted, _images(samples)))


def _images(samples: Samples) -> list[np.ndarray]:
    return [sample.image for sample in islice(samples, _MOST)]


def _signals(bundle: Bundle, preprocess: Preprocess, images: Sequence[np.ndarray]) -> Signals:
    """The signals of images, as the monitor of a predictor computes them."""
    maker, predictor = maker_of(bundle), Predictor(bundle)
    shape, parts = bundle.manifest.input.shape, []
    for start in range(0, len(images), SIZES[0]):
        some = images[start : start + SIZES[0]]
        batch = np.stack([apply(preprocess, image, input_shape=shape) for image in some])
        parts.append({**maker.of_input(batch), **maker.of_outputs([predictor.predict(batch)])})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _row(bundle: Bundle, network: str, change: str, usual: Signals, changed: Signals) -> Row:
    assert bundle.drift is not None
    counts, signals, tests = [], [], 0
    images, before = (len(next(iter(each.values()))) for each in (changed, usual))
    for seed in range(_ORDERS):
        random, watch = np.random.default_rng(seed), DriftWatch(bundle.drift)
        first = random.permutation(before)[: 0 if change == _NOTHING else random.integers(0, min(before, SIZES[2]))]
        watch.add({name: values[first] for name, values in usual.items()})
        order = random.permutation(images)
        # Signals are tested at the ends of these parts alone.
        ends = [*range(SIZES[0] - len(first) % SIZES[0], images, SIZES[0]), images]
        count = 0
        for start, end in zip((0, *ends), ends):
            told = watch.add({name: values[order[start:end]] for name, values in changed.items()})
            if begun := [each.signal for each in told if each.begins]:
                count = end
                signals.append(begun[0])
                break
        counts.append(count)
        tests += sum((count or images) // size for size in SIZES)
    return Row(network, change, images, counts, signals, tests)


def _cost(bundle: Bundle, test: Samples, rounds: int, seconds: float) -> Cost:
    assert bundle.preprocess is not None
    shape, some = bundle.manifest.input.shape, _images(test)[:_SMALL]
    images = [apply(bundle.preprocess, image, input_shape=shape) for image in some]
    forms: Mapping[str, bool | quantkit.Monitor]
    forms = {"without": False, "default": True, "everything": quantkit.Monitor(share=1.0)}
    found: dict[str, list[float]] = {form: [] for form in forms}
    for seed in range(rounds):
        predictors = {form: Predictor(bundle, monitor=monitor) for form, monitor in forms.items()}
        spent: dict[str, float] = dict.fromkeys(forms, 0.0)
        runs: dict[str, int] = dict.fromkeys(forms, 0)
        ended, random = dict.fromkeys(forms, perf_counter()), np.random.default_rng(seed)
        while min(spent.values()) < seconds:
            for form in random.permutation(list(forms)):
                if (watcher := predictors[form]._watcher) is not None:
                    # While others run, a monitor would have time to itself.
                    watcher._next += perf_counter() - ended[form]
                begun = perf_counter()
                for image in images:
                    predictors[form].predict(image)
                ended[form] = perf_counter()
                spent[form] += ended[form] - begun
                runs[form] += len(images)
        for form in forms:
            found[form].append(1e3 * spent[form] / runs[form])
    return Cost(bundle.manifest.name, **found)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    rows = [Row(**row) for row in document["rows"]]
    parts = [
        described(document),
        f"In {_ORDERS} orders: in how many a signal drifted, and the images until then, where all are watched. Without "
        "a change, these are false alarms.",
        "\n".join([*table(_COLUMNS), *map(_line, rows)]),
    ]
    if document["costs"]:
        parts += [
            "Throughput with a monitor over that without one: the geometric mean over rounds and its 95 % interval.",
            "\n".join([*table(_COSTS), *(_cost_line(Cost(**cost)) for cost in document["costs"])]),
        ]
    return "\n\n".join(parts) + "\n"


def _line(row: Row) -> str:
    told = [count for count in row.counts if count]
    images = [f"{np.median(told):.0f}", f"{np.percentile(told, 95):.0f}"] if told else ["", ""]
    first = max(set(row.signals), key=row.signals.count) if told else ""
    share = f"{len(told)} of {len(row.counts)}" + (f", {row.tests} tests" if row.change == _NOTHING else "")
    return f"| {' | '.join((row.network, row.change, str(row.images), share, *images, first))} |"


def _cost_line(cost: Cost) -> str:
    told = [mean_ratio(np.divide(cost.without, each).tolist()) for each in (cost.default, cost.everything)]
    return f"| {' | '.join((cost.network, str(len(cost.without)), f'{np.median(cost.without):.3f}', *told))} |"


if __name__ == "__main__":
    run(main)
