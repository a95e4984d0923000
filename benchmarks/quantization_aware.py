"""Whether training with quantization brings INT8 networks nearer to FP32 than they were.

    python benchmarks/quantization_aware.py --out benchmarks/results/quantization-aware

Trained networks are quantized with the preset `best`, and with `none`, which calibrates ranges alone. From there they
are trained with the defaults of `train_quantized` on the images that are there for calibration, towards the scores of
FP32, without labels. Nothing is chosen by other images: the last epoch counts. Both are judged on images that neither
has seen: agreement with FP32 and accuracy, with McNemar's test. Time is that of the training, on all cores.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Optional

from command_line import Document, arguments, at_least, data_root, described, host_facts, run, table, write_results

import quantkit
from quantkit.evaluation.paired import Paired
from quantkit.quantization.ptq_config import PresetName
from quantkit.training.quantization_aware import QUANTIZATION_AWARE

NETWORKS = ("cifar_resnet20_v1", "cifar_resnet20_v2", "squeezenet1.0", "mobilenet0.25_relu6")
PRESETS: tuple[PresetName, ...] = ("best", "none")
COLUMNS = (
    "network",
    "preset",
    "trained on",
    "minutes",
    "judged on",
    "agreement before, %",
    "after, %",
    "images won, lost",
    "p",
    "verdict",
    "top-1 of FP32, %",
    "before, %",
    "after, %",
    "cosine before",
    "after",
)


@dataclass(frozen=True)
class Row:
    """A network before and after; shares are from 0 to 1."""

    network: str
    preset: PresetName
    trained: int
    seconds: float
    judged: int
    agreement: tuple[float, float]
    won: int
    lost: int
    p_value: float
    verdict: str
    top1: tuple[float, float, float]
    cosine: tuple[float, float]


def main() -> None:
    """Train every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--epochs", type=at_least(1), default=QUANTIZATION_AWARE.epochs)
    options = parser.parse_args()
    root, suite = data_root(), tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    rows: list[Row] = []
    print("\n".join(table(COLUMNS)), flush=True)
    wanted = [each for each in suite["network"] if _is_wanted(Path(each["model"]).name, options.network)]
    for network, preset in product(wanted, PRESETS):
        rows.append(outcome(network, preset, suite, root, options.epochs))
        print(_line(asdict(rows[-1])), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        command = f"python benchmarks/quantization_aware.py{parts} --epochs {options.epochs}"
        write_results(options.out, command, host_facts(), {"rows": [asdict(each) for each in rows]}, page)


def _is_wanted(name: str, parts: Optional[Sequence[str]]) -> bool:
    return name in NETWORKS and (not parts or any(part in name for part in parts))


def outcome(network: Mapping[str, Any], preset: PresetName, suite: Mapping[str, Any], root: Path, epochs: int) -> Row:
    """Quantize, train and judge."""
    preprocess = quantkit.Preprocess(**suite["preprocess"][network["preprocess"]])
    shape = tuple(network["input_shape"])
    model = quantkit.load_model(root / network["model"], input_shape=shape, preprocess=preprocess)
    data = suite["data"][network["data"]]
    calibration, test = f"{root / data['calibration']}", f"{root / data['test']}"
    config = quantkit.QuantizationConfig(num_samples=max(data["calibration_samples"]), preset=preset)
    before = quantkit.quantize(model, calibration, config)
    begun = time.monotonic()
    after = quantkit.train_quantized(before, calibration, config=replace(QUANTIZATION_AWARE, epochs=epochs))
    seconds = time.monotonic() - begun
    found = quantkit.evaluate(after.network, test, model, against=before)
    paired = next(each.result for each in found.comparisons if (each.measure, each.other) == ("agreement", "against"))
    if not isinstance(paired, Paired):
        raise TypeError("agreement is counted image by image")
    return Row(
        Path(network["model"]).name,
        preset,
        len(quantkit.load_data(calibration)),
        seconds,
        found.images,
        _both(found.agreement["against"].top1, found.agreement["network"].top1),
        paired.first_only,
        paired.other_only,
        paired.p_value,
        paired.verdict,
        (found.accuracy["reference"].top1, found.accuracy["against"].top1, found.accuracy["network"].top1),
        (found.agreement["against"].cosine, found.agreement["network"].cosine),
    )


def _both(before: Optional[float], after: Optional[float]) -> tuple[float, float]:
    if before is None or after is None:
        raise TypeError("a classifier agrees with FP32 or not, image by image")
    return before, after


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        "Before: quantized with the preset. After: trained from there, towards the scores of FP32. Won are images on "
        "which only the trained network agrees with FP32, lost those on which only the other does; p is McNemar's."
    )
    return "\n".join([described(document), "", note, "", *table(COLUMNS), *lines(document)]) + "\n"


def lines(document: Document) -> Iterator[str]:
    """The rows of the table."""
    yield from map(_line, document["rows"])


def _line(row: Mapping[str, Any]) -> str:
    found = Row(**row)
    facts = (
        found.network,
        f"`{found.preset}`",
        f"{found.trained} images",
        f"{found.seconds / 60:.1f}",
        f"{found.judged} images",
        *(f"{100 * each:.2f}" for each in found.agreement),
        f"{found.won}, {found.lost}",
        f"{found.p_value:.2g}",
        found.verdict,
        *(f"{100 * each:.2f}" for each in found.top1),
        *(f"{each:.5f}" for each in found.cosine),
    )
    return f"| {' | '.join(map(str, facts))} |"


if __name__ == "__main__":
    run(main)
