"""What `quantize --never-slower` makes of each network: layers returned to FP32, and the speed with and without.

    python benchmarks/never_slower.py --out benchmarks/results/never-slower

The networks are those of all model cards, with random weights, which are as fast as trained ones. Speeds are those of
the proof: runs of unfused and fused FP32, of all layers in INT8 and of the chosen network in turns, as ratios to the
form of FP32 that is faster, with 95 % intervals. Each candidate, a layer or a group of layers, is first timed by itself
in FP32, large groups first; then those that are faster there are combined. OUT.json has the medians of all forms in ms.
Nothing else may run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import numpy as np
from command_line import Document, arguments, rows_page, run, table, write_rows

import quantkit
from quantkit.models.card import cards

_SAMPLES = 4
_IMAGE_AXES = 3

_COLUMNS = (
    "network",
    "layers returned",
    "candidates timed",
    "compared with",
    "all INT8",
    "never slower",
    "verdict",
    "ms",
    "minutes",
)


@dataclass(frozen=True)
class Outcome:
    """The proof of one network, and the minutes that it took to make the network."""

    network: str
    proof: quantkit.SpeedProof
    minutes: float


def main() -> None:
    """Quantize every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of search for each network")
    parser.add_argument("--batch", type=int, default=1, help="images of a run")
    options = parser.parse_args()
    names = [card.name for card in cards()]
    chosen = [name for name in names if not options.network or any(part in name for part in options.network)]
    command = "python benchmarks/never_slower.py" + "".join(f" --network {part}" for part in options.network or ())
    command += f" --minutes {options.minutes:g} --batch {options.batch}"
    print("\n".join(table(_COLUMNS)), flush=True)
    outcomes: list[Outcome] = []
    for name in chosen:
        outcomes.append(alone(name, options.minutes, options.batch))
        # As in the document, so that the line is the page's.
        print(*_lines(json.loads(json.dumps([asdict(outcomes[-1])]))), flush=True)
        if options.out is not None:
            write_rows(options.out, command, outcomes, page)


def alone(network: str, minutes: float, batch: int) -> Outcome:
    """What ``outcome_of`` gives in a process of its own: an LSTM takes instructions from networks after it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(outcome_of, network, minutes, batch).result()


def outcome_of(network: str, minutes: float, batch: int) -> Outcome:
    """Quantize a network with random weights, so that it is never slower."""
    config = quantkit.QuantizationConfig(
        num_samples=_SAMPLES, preset="none", never_slower=True, search_minutes=minutes, speed_batch=batch
    )
    began = perf_counter()
    model = quantkit.load_model(network, weights="random", quiet=True)
    quantized = quantkit.quantize(model, samples(model), config)
    assert quantized.speed is not None
    return Outcome(network, quantized.speed, (perf_counter() - began) / 60)


def samples(model: quantkit.Model) -> np.ndarray | None:
    """Random samples of a network of sequences or vectors; None, the built-in images, of one of images."""
    if len(model.input_shape) == _IMAGE_AXES:
        return None
    generator = np.random.default_rng(0)
    shape = (_SAMPLES, *model.input_shape)
    if model.vocabulary is not None:
        return generator.integers(0, model.vocabulary.size, shape)
    return generator.random(shape, np.float32)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, _lines(document["rows"]))


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        proof = row["proof"]
        verdict = "INT8 is faster" if proof["faster"] else "all in FP32"
        if not proof["complete"]:
            verdict += ", search ended by its budget"
        times = proof["milliseconds"]
        deployed = times.get("int8", times["all_int8"]) if proof["faster"] else times["fp32_fused"]
        ratio = _ratio(proof["ratio"]) if proof["faster"] else "FP32 fused"
        form = "FP32 unfused" if proof["reference"] == "fp32" else "FP32 fused"
        yield (
            f"| {row['network']} | {_returned(proof)} | {_timed(proof)} | {form} | {_ratio(proof['all_int8'])} | "
            f"{ratio} | {verdict} | {deployed:.2f} | {row['minutes']:.1f} |"
        )


def _returned(proof: Mapping[str, Any]) -> str:
    # Where INT8 was not proven to be faster, all layers were.
    if not proof["faster"]:
        return f"{proof['layers']} of {proof['layers']}"
    names = f": {', '.join(proof['returned'])}" if proof["returned"] else ""
    return f"{len(proof['returned'])} of {proof['layers']}{names}"


def _timed(proof: Mapping[str, Any]) -> str:
    every, timed = proof["candidates"]
    return f"{timed} of {every}"


def _ratio(interval: Mapping[str, float]) -> str:
    return f"{interval['median']:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"


if __name__ == "__main__":
    run(main)
