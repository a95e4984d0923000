"""What fine-tuning brings on real data, and what is left of it in INT8.

    python benchmarks/finetuning.py --out benchmarks/results/finetuning

Trained networks learn other classes, with the defaults of `quantkit finetune` but for the settings of a row. What is
learned from, what chooses the epoch and what is judged are three sets without a common sample. INT8 has the preset
`best`, calibrated with 100 of the training samples; it is compared with FP32 by McNemar's test. Time is that of
training alone, on all cores, while nothing else runs.
One core and two instances of one core each, through MXNet's parameter server, then take turns in epochs of it, each
with the batch of the training; see alternating_trainings.py. Efficiency is the throughput of two over twice that of
one, a geometric mean with Student's 95 % interval over starts of these trainings.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Optional

import numpy as np
from alternating_trainings import Training, throughputs, turns
from command_line import Document, arguments, at_least, data_root, described, host_facts, run, table, write_results
from training_scaling import share

import quantkit
from quantkit.benchmark.workers.worker import die_with_parent
from quantkit.data.arrays import arrays
from quantkit.errors import DataError
from quantkit.files.folders import scratch_folder
from quantkit.host.children import kill_descendants
from quantkit.training.augmentation import Augmentation
from quantkit.training.config import TrainingConfig
from quantkit.training.spinning import load_for_training

COLUMNS = (
    "network",
    "learns",
    "settings",
    "samples",
    "epochs",
    "minutes",
    "images/s",
    "waiting, %",
    "cost at 1 per hour",
    "efficiency of 2 instances, %",
    "judged on",
    "top-1, FP32",
    "top-1, INT8",
    "INT8 against FP32",
)

# ImageNet's first classes are animals.
_ANIMALS = 398

# Samples of each reading of instances, at least.
_TIMED = 1000


@dataclass(frozen=True, eq=False)
class Sets:
    """Samples to learn from, to choose the epoch by, and to judge on."""

    learned: quantkit.Samples
    choosing: quantkit.Samples
    judged: quantkit.Samples


@dataclass(frozen=True)
class Case:
    """A network and what it learns; ``sets`` finds the samples in the folder of real data.

    ``settings`` are those of ``config`` that are no defaults, in words.
    """

    weights: str
    learns: str
    settings: str
    classes: int
    input_shape: tuple[int, ...]
    preprocess: quantkit.Preprocess
    config: TrainingConfig
    sets: Callable[[Path], Sets]


@dataclass(frozen=True)
class Row:
    """What became of a case.

    Accuracies are shares from 0 to 1; ``alone`` and ``together`` are the images per second of one instance and of two,
    in the order of their starts.
    """

    network: str
    learns: str
    settings: str
    samples: int
    epochs: int
    seconds: float
    throughput: float
    waiting: float
    alone: Sequence[float]
    together: Sequence[float]
    judged: int
    fp32: float
    int8: float
    verdict: str
    p_value: Optional[float]


def main() -> None:
    """Train every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--minutes", type=at_least(1), default=4, help="of the efficiency of each network, without its starts"
    )
    parser.add_argument("--starts", type=at_least(2), default=8, help="of the trainings for the efficiency")
    options = parser.parse_args()
    root = data_root()
    rows: list[Row] = []
    print("\n".join(table(COLUMNS)), flush=True)
    for case in CASES:
        if not options.network or any(part in case.weights for part in options.network):
            # MXNet is loaded once in a process, and in another way for small images than for photographs.
            with ProcessPoolExecutor(1, get_context("spawn"), die_with_parent, (os.getpid(),)) as pool:
                try:
                    rows.append(pool.submit(outcome, case, root, options.minutes, options.starts).result())
                except KeyboardInterrupt:
                    # The pool would wait for the end of the case.
                    kill_descendants()
                    raise
            print(_line(asdict(rows[-1])), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        figures = {"rows": [asdict(each) for each in rows]}
        command = f"python benchmarks/finetuning.py{parts} --minutes {options.minutes} --starts {options.starts}"
        write_results(options.out, command, host_facts(), figures, page)


def outcome(case: Case, root: Path, minutes: int, starts: int) -> Row:
    """Train, quantize and judge; then train on instances."""
    sets = case.sets(root)
    # As `quantkit finetune` does, before anything else loads MXNet.
    load_for_training(sets.learned)
    model = quantkit.load_model(
        root / "weights" / case.weights, input_shape=case.input_shape, preprocess=case.preprocess
    )
    trained = quantkit.finetune(model, sets.learned, sets.choosing, classes=case.classes, config=case.config)
    config = quantkit.QuantizationConfig(num_samples=100, preset="best")
    int8 = quantkit.quantize(trained.model, sets.learned, config)
    found = quantkit.evaluate(int8, sets.judged, trained.model)
    compared = next(each.result for each in found.comparisons if each.measure == "accuracy")
    seconds = sum(epoch.seconds for epoch in trained.epochs)
    return Row(
        case.weights,
        case.learns,
        case.settings,
        len(sets.learned),
        len(trained.epochs),
        seconds,
        sum(epoch.samples for epoch in trained.epochs) / seconds,
        sum(epoch.waited for epoch in trained.epochs) / seconds,
        *on_instances(model, case, sets.learned, minutes, starts),
        found.images,
        found.accuracy["reference"].top1,
        found.accuracy["network"].top1,
        compared.verdict,
        getattr(compared, "p_value", None),
    )


def on_instances(
    model: quantkit.Model, case: Case, learned: quantkit.Samples, minutes: int, starts: int
) -> tuple[list[float], list[float]]:
    """Images per second of one instance and of two."""
    with scratch_folder() as scratch:
        images = scratch / "images.npz"
        samples = list(learned)
        np.savez(images, x=np.stack([each.image for each in samples]), y=[_class(each.label) for each in samples])
        forms = {}
        for instances in (1, 2):
            config = replace(case.config, batch_size=instances * case.config.batch_size)
            forms[instances] = [Training(model, images, case.classes, config, instances)]
        found = turns(forms, minutes, math.ceil(_TIMED / len(samples)), starts)
    return throughputs(found[1]), throughputs(found[2])


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        "Top-1 in percent, of samples that neither the training nor the choice of its epoch has seen. The verdict is "
        "McNemar's, with its p-value. Efficiency is the throughput of two instances of one core, each with the batch "
        "of the training, over twice that of one, with its 95 % interval over starts."
    )
    return "\n".join([described(document), "", note, "", *table(COLUMNS), *lines(document)]) + "\n"


def lines(document: Document) -> Iterator[str]:
    """The rows of the table."""
    yield from map(_line, document["rows"])


def _line(row: dict[str, object]) -> str:
    found = Row(**row)  # type: ignore[arg-type]
    verdict = found.verdict if found.p_value is None else f"{found.verdict}, p = {found.p_value:.2g}"
    facts = (
        found.network,
        found.learns,
        found.settings,
        found.samples,
        found.epochs,
        f"{found.seconds / 60:.1f}",
        f"{found.throughput:.1f}",
        f"{100 * found.waiting:.1f}",
        f"{found.seconds / 3600:.3f}",
        share(found.together, [2 * each for each in found.alone]),
        found.judged,
        f"{100 * found.fp32:.2f}",
        f"{100 * found.int8:.2f}",
        verdict,
    )
    return f"| {' | '.join(map(str, facts))} |"


def _digits(root: Path) -> Sets:
    """Scikit-learn's digits: a fifth of the training split chooses the epoch."""
    samples = list(quantkit.load_data("digits:train"))
    return Sets(
        _stacked([each for place, each in enumerate(samples) if place % 5], "digits to learn from"),
        _stacked(samples[::5], "digits to choose by"),
        quantkit.load_data("digits:test"),
    )


def _of_cifar(root: Path) -> Sets:
    """Five of CIFAR-10's classes: bird, cat, deer, dog, frog."""
    classes = [2, 3, 4, 5, 6]
    learned, judged = (_chosen(root / "cifar10" / name, classes) for name in ("train-2000.npz", "test-even.npz"))
    return Sets(
        _stacked([each for place, each in enumerate(learned) if place % 5], "five classes to learn from"),
        _stacked(learned[::5], "five classes to choose by"),
        _stacked(judged, "five classes of the test images"),
    )


def _animals(root: Path) -> Sets:
    """Photographs, which are read from their files: is the labelled object an animal?"""
    sources = [quantkit.load_data(f"{root / 'imagenet'}:{split}") for split in ("calib", "test")]
    files = [(source, position) for source in sources for position in source.order()]

    def chosen(name: str, fifths: Container[int]) -> quantkit.Samples:
        own = [file for number, file in enumerate(files) if number % 5 in fifths]

        def read(positions: Iterable[int]) -> Iterator[quantkit.Sample]:
            for source, place in map(own.__getitem__, positions):
                (sample,) = source.read((place,))
                yield replace(sample, label=int(_class(sample.label) < _ANIMALS))

        return quantkit.Samples(name, read, len(own), independent=True)

    return Sets(
        chosen("photographs to learn from", (2, 3, 4)),
        chosen("photographs to choose by", (0,)),
        chosen("photographs to judge on", (1,)),
    )


def _class(label: object) -> int:
    if not isinstance(label, int):
        raise DataError(f"a sample has the label {label!r}, which is no class")
    return label


def _chosen(path: Path, classes: list[int]) -> list[quantkit.Sample]:
    return [
        replace(each, label=classes.index(_class(each.label)))
        for each in quantkit.load_data(path)
        if each.label in classes
    ]


def _stacked(samples: list[quantkit.Sample], name: str) -> quantkit.Samples:
    labels = np.array([_class(each.label) for each in samples])
    return arrays(np.stack([each.image for each in samples]), labels, name)


_CIFAR = quantkit.Preprocess(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
_ROTATED = quantkit.Preprocess(256, 224, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), 127.5, rotate180=True)


def _of_digits(weights: str) -> Case:
    config = TrainingConfig(8, augmentation=Augmentation(smallest_crop=0.7, flip=False))
    return Case(weights, "digits", "crops from 70 %, not mirrored", 10, (3, 32, 32), _CIFAR, config, _digits)


CASES = (
    _of_digits("cifar_resnet20_v1"),
    _of_digits("cifar_resnet20_v2"),
    Case(
        "cifar_resnet20_v1",
        "five classes of CIFAR-10",
        "rate 0.02, crops from 70 %",
        5,
        (3, 32, 32),
        _CIFAR,
        TrainingConfig(6, learning_rate=0.02, augmentation=Augmentation(smallest_crop=0.7)),
        _of_cifar,
    ),
    Case(
        "mobilenet0.25_relu6",
        "animals",
        "rate 0.05, body frozen",
        2,
        (3, 224, 224),
        _ROTATED,
        TrainingConfig(10, learning_rate=0.05, freeze=("body",)),
        _animals,
    ),
)


if __name__ == "__main__":
    run(main)
