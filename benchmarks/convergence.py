"""Whether a training converges alike on one instance and on several.

    python benchmarks/convergence.py --out benchmarks/results/convergence

A trained network learns scikit-learn's digits on one instance and on two, of one core each, through each kvstore that
is installed: with the same batch, and with a batch that grows with the instances, as it does where a training is to
become faster. Every form has the same seeds. OUT.svg shows the accuracy after each epoch, the mean over seeds with
Student's 95 % interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from command_line import Document, arguments, at_least, data_root, described, host_facts, run, table, write_results
from scipy.stats import t as student
from training_instances import kvstores

import quantkit
from quantkit.files.files import writing
from quantkit.report.page.drawing import write_sheet
from quantkit.report.page.figure import Entry, Figure, Panel, Style
from quantkit.training.launch import KVStoreName

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NETWORK, BATCH, EPOCHS = "cifar_resnet20_v1", 32, 8


@dataclass(frozen=True)
class Form:
    """How a training runs: its instances, the batch of all together, and through what they add up gradients."""

    instances: int
    batch: int
    kvstore: KVStoreName

    @property
    def name(self) -> str:
        """In words."""
        if self.instances == 1:
            return f"1 instance, batch {self.batch}"
        return f"{self.instances} instances, batch {self.batch}, {self.kvstore}"


@dataclass(frozen=True)
class Row:
    """What became of a form: for each seed the top-1 after each epoch, as a share of the judged images."""

    form: str
    judged: int
    top1: Sequence[Sequence[float]]


def main() -> None:
    """Train in every form."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=at_least(2), default=5)
    options = parser.parse_args()
    several = [Form(2, BATCH, kvstore) for kvstore in kvstores()]
    forms = [Form(1, BATCH, "dist_sync"), *several, Form(2, 2 * BATCH, "dist_sync")]
    preprocess = quantkit.Preprocess(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
    weights = data_root() / "weights" / NETWORK
    model = quantkit.load_model(weights, input_shape=(3, 32, 32), preprocess=preprocess)
    found: dict[Form, list[Sequence[float]]] = {form: [] for form in forms}
    judged = len(quantkit.load_data("digits:test"))
    for seed in range(options.seeds):
        for form in forms:
            found[form].append(trained(model, form, seed))
            print(form.name, seed, " ".join(f"{100 * each:.2f}" for each in found[form][-1]), flush=True)
    rows = [Row(form.name, judged, top1) for form, top1 in found.items()]
    if options.out is not None:
        command = f"python benchmarks/convergence.py --seeds {options.seeds}"
        write_results(options.out, command, host_facts(), {"rows": [asdict(row) for row in rows]}, page)
        with writing(options.out.with_name(f"{options.out.name}.svg")) as file:
            write_sheet(figure(rows), file, "svg")


def trained(model: quantkit.Model, form: Form, seed: int) -> Sequence[float]:
    """The accuracy after each epoch."""
    varied = quantkit.Augmentation(smallest_crop=0.7, flip=False)
    config = quantkit.TrainingConfig(EPOCHS, form.batch, seed=seed, augmentation=varied)
    result = quantkit.finetune(
        model,
        "digits:train",
        "digits:test",
        classes=10,
        config=config,
        workers=1,
        instances=f"{form.instances}x1",
        kvstore=form.kvstore,
    )
    return [epoch.validated.top1 for epoch in result.epochs if epoch.validated is not None]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean of a value over seeds, and half of its 95 % interval."""
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return float(np.mean(values)), float(student.ppf(0.975, len(values) - 1) * error)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    rows = [Row(**row) for row in document["rows"]]
    note = (
        f"{NETWORK} learns scikit-learn's digits: top-1 on {rows[0].judged} other images after each epoch, in percent, "
        f"the mean over {len(rows[0].top1)} seeds with its 95 % interval. Each instance has one core; the learning "
        "rate is scaled with the batch."
    )
    columns = ("epoch", *(row.form for row in rows))
    lines = [_line(epoch, rows) for epoch in range(len(rows[0].top1[0]))]
    picture = "![Accuracy by epoch for 1 and 2 instances](convergence.svg)"
    return "\n".join([described(document), "", note, "", *table(columns), *lines, "", picture]) + "\n"


def _line(epoch: int, rows: Sequence[Row]) -> str:
    means = [interval([100 * seed[epoch] for seed in row.top1]) for row in rows]
    return f"| {epoch + 1} | {' | '.join(f'{mean:.2f} ± {half:.2f}' for mean, half in means)} |"


def figure(rows: Sequence[Row]) -> Figure:
    """The accuracy of all forms by epoch."""
    looks = [Style(f"series{number + 1}", marker=marker) for number, marker in zip(range(len(rows)), "osv^")]
    legend = tuple(Entry(_label(row.form), look, "marker") for row, look in zip(rows, looks))
    draw = partial(_draw, rows=rows, looks=looks)
    alternative = "Top-1 by epoch, a line for each form."
    return Figure(
        "convergence",
        "Accuracy by epoch: instances, batch, kvstore",
        "",
        legend,
        (Panel("", alternative, draw, 8.0, 3.6),),
    )


def _label(form: str) -> str:
    """A form without the words that would make a legend too long."""
    return form.replace(" instances", "").replace(" instance", "")


def _draw(axes: Axes, rows: Sequence[Row], looks: Sequence[Style]) -> None:
    for number, (row, look) in enumerate(zip(rows, looks)):
        means = [interval([100 * seed[epoch] for seed in row.top1]) for epoch in range(len(row.top1[0]))]
        # Side by side, so that none hides another.
        x = [epoch + 1 + 0.08 * (number - (len(rows) - 1) / 2) for epoch in range(len(means))]
        y, halves = zip(*means)
        axes.errorbar(x, y, yerr=halves, color=look.value, marker=look.marker, markersize=4, linewidth=1, capsize=2)
    axes.set_xlabel("epoch")
    axes.set_ylabel("top-1, %")


if __name__ == "__main__":
    run(main)
