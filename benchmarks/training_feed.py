"""How many images per second the feed of a training prepares, by augmentation and by threads, without a network.

    python benchmarks/training_feed.py --out benchmarks/results/training-feed

Labelled images are read from their files, decoded, varied and preprocessed as `quantkit finetune` does it: photographs
for a network that reads 224 x 224 pixels, and CIFAR-10's images of 32 x 32, which lie in one array. Files are decoded
in the first epoch, and stay in memory for the later ones, which are measured apart from it. All forms take turns in
random order; medians over rounds, with the slowest and the fastest. Nothing else may run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from command_line import ROUNDS, Document, arguments, data_root, rows_page, run, write_rows

import quantkit
from quantkit.host.threads import worker_threads
from quantkit.training.augmentation import NONE
from quantkit.training.feed import Feed, readable_in_any_order

COLUMNS = (
    "images",
    "read by",
    "augmentation",
    "threads",
    "images/s, first epoch",
    "slowest, fastest",
    "images/s, later epochs",
    "slowest, fastest",
)
SETS = (("imagenet:calib", "mobilenet1.0"), ("cifar10/train-2000.npz", "cifar_resnet20_v1"))
AUGMENTATIONS = {
    "none": NONE,
    "crops": quantkit.Augmentation(flip=False, colour=0.0),
    "crops, mirrored": quantkit.Augmentation(colour=0.0),
    "crops, mirrored, colours (default)": quantkit.Augmentation(),
}
_BATCH, _IMAGES = 20, 400


@dataclass(frozen=True)
class Row:
    """A form of the feed, with its images per second in the first epoch and in later ones, in each round."""

    data: str
    network: str
    augmentation: str
    threads: int
    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)


def main() -> None:
    """Measure all forms."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=ROUNDS, default=5)
    options = parser.parse_args()
    threads = sorted({1, worker_threads()})
    sets = [each for each in SETS if not options.network or any(part in each[1] for part in options.network)]
    rows = [Row(*each, name, number) for each in sets for name in AUGMENTATIONS for number in threads]
    shuffled = random.Random(0)
    for _ in range(options.rounds):
        for row in shuffled.sample(rows, len(rows)):
            first, later = rates(row)
            row.first.append(first)
            row.later.append(later)
            print(row.data, row.augmentation, row.threads, f"{first:.0f} {later:.0f}", flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        command = f"python benchmarks/training_feed.py{parts} --rounds {options.rounds}"
        write_rows(options.out, command, rows, page)


def rates(row: Row) -> tuple[float, float]:
    """Images per second of the first epoch, and of later ones."""
    model = quantkit.load_model(row.network, weights="random", quiet=True)
    samples = readable_in_any_order(quantkit.load_data(f"{data_root() / row.data}"))
    config = quantkit.TrainingConfig(batch_size=_BATCH, augmentation=AUGMENTATIONS[row.augmentation])
    feed = Feed(samples, model, config, 1000, row.threads)
    return rate(feed, 1, 1), rate(feed, 2, 1 + -(-_IMAGES // (feed.steps * _BATCH)))


def rate(feed: Feed, first: int, last: int) -> float:
    """Images per second of whole epochs."""
    begun = perf_counter()
    with closing(feed.epochs(first, last)) as batches:
        prepared = sum(len(batch.data) for batch in batches)
        return prepared / (perf_counter() - begun)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, COLUMNS, lines(document))


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table."""
    for row in (Row(**each) for each in document["rows"]):
        facts = (row.data, row.network, row.augmentation, row.threads, *_spread(row.first), *_spread(row.later))
        yield f"| {' | '.join(map(str, facts))} |"


def _spread(found: Sequence[float]) -> tuple[str, str]:
    return f"{median(found):.0f}", f"{min(found):.0f}, {max(found):.0f}"


if __name__ == "__main__":
    run(main)
