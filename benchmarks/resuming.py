"""Whether an interrupted training ends with the weights that it would have had.

    python benchmarks/resuming.py --out benchmarks/results/resuming

A trained network learns scikit-learn's digits for three epochs, with each optimizer, in one process and on two
instances through each kvstore that is installed: once in one go, and once interrupted after each epoch and begun again
from the checkpoint. What is compared is every parameter, bit by bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional, get_args

from command_line import Document, arguments, data_root, described, host_facts, run, table, write_results
from training_instances import kvstores

import quantkit
from quantkit.files.folders import scratch_folder
from quantkit.training.config import OptimizerName
from quantkit.training.epoch import Epoch
from quantkit.training.launch import KVStoreName
from quantkit.training.loop import ignore_epoch

COLUMNS = ("network", "optimizer", "runs in", "epochs", "interrupted after", "parameters", "that differ")
NETWORK, EPOCHS = "cifar_resnet20_v1", 3


@dataclass(frozen=True)
class Row:
    """What became of a training that was interrupted; ``differ`` counts the parameters with other values."""

    optimizer: str
    form: str
    parameters: int
    differ: int


class _InterruptedError(Exception):
    """Ends a training between two epochs."""


def main() -> None:
    """Train in every form."""
    options = arguments(__doc__).parse_args()
    preprocess = quantkit.Preprocess(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
    model = quantkit.load_model(data_root() / "weights" / NETWORK, input_shape=(3, 32, 32), preprocess=preprocess)
    shared = [("2x1", kvstore) for kvstore in kvstores()]
    forms: list[tuple[Optional[str], KVStoreName]] = [(None, "dist_sync"), *shared]
    rows = []
    print("\n".join(table(COLUMNS)), flush=True)
    for optimizer in get_args(OptimizerName):
        for instances, kvstore in forms:
            rows.append(outcome(model, optimizer, instances, kvstore))
            print(_line(asdict(rows[-1])), flush=True)
    if options.out is not None:
        figures = {"rows": [asdict(row) for row in rows]}
        write_results(options.out, "python benchmarks/resuming.py", host_facts(), figures, page)


def outcome(model: quantkit.Model, optimizer: OptimizerName, instances: Optional[str], kvstore: KVStoreName) -> Row:
    """Train twice, and compare."""
    with scratch_folder() as folder:

        def trained(name: str, interrupted: bool) -> Mapping[str, str]:
            def told(epoch: Epoch) -> None:
                if epoch.number < EPOCHS:
                    raise _InterruptedError

            result = quantkit.finetune(
                model,
                "digits:train",
                "digits:test",
                classes=10,
                config=quantkit.TrainingConfig(EPOCHS, optimizer=optimizer),
                workers=1,
                checkpoint=folder / name,
                instances=instances,
                kvstore=kvstore,
                on_epoch=told if interrupted else ignore_epoch,
            )
            return {
                key: hashlib.sha256(value.tobytes()).hexdigest() for key, value in result.model.graph.params.items()
            }

        expected, found = trained("whole", False), None
        while found is None:
            try:
                found = trained("parts", True)
            except _InterruptedError:
                continue
    differ = sum(found[name] != digest for name, digest in expected.items())
    form = "one process" if instances is None else f"2 instances, {kvstore}"
    return Row(optimizer, form, len(expected), differ)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = "A parameter is an array of the network; those that differ have a bit that is not the same."
    return "\n".join([described(document), "", note, "", *table(COLUMNS), *lines(document)]) + "\n"


def lines(document: Document) -> Iterator[str]:
    """The rows of the table."""
    yield from map(_line, document["rows"])


def _line(row: Mapping[str, Any]) -> str:
    found = Row(**row)
    interrupted = ", ".join(map(str, range(1, EPOCHS)))
    facts = (NETWORK, found.optimizer, found.form, EPOCHS, interrupted, found.parameters, found.differ)
    return f"| {' | '.join(map(str, facts))} |"


if __name__ == "__main__":
    run(main)
