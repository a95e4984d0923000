"""``quantkit finetune``: a trained network learns the user's own classes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.networks import load
from quantkit.cli.option_groups import Loading, Preprocessing, skip_bad_option
from quantkit.cli.options import Verb, collected, option, output_options
from quantkit.cli.targets import check_bundle_target, check_not_bundle, check_target, network_name
from quantkit.cli.terminal import Terminal
from quantkit.cli.training_options import Learning, Varying, config_of
from quantkit.units import counted, percent

if TYPE_CHECKING:
    from quantkit.evaluation.evaluate import Evaluation
    from quantkit.training.epoch import Epoch
    from quantkit.training.finetune import FineTuned
    from quantkit.training.machines import Machines

# Waiting for more of the time than this is worth a remark.
_WAITING = 0.02

_HOUR = 3600.0


@dataclass(frozen=True)
class TrainingSamples:
    """What a network learns from."""

    train: str = option(
        "--train",
        required=True,
        metavar="SPEC",
        help="Labelled samples: a folder with a folder per class, or with a labels.csv (FOLDER:SPLIT for one split), "
        ".rec, .npz, shards, digits:train.",
    )
    val: Optional[str] = option(
        "--val", metavar="SPEC", help="Other labelled samples, on which each epoch is judged; the best one is written."
    )
    classes: Optional[int] = option(
        "--classes",
        type=click.IntRange(min=2),
        metavar="N",
        help="The number of classes of the samples; the network gets a new last layer.  [default: it keeps its own]",
    )
    labels: Optional[str] = option(
        "--labels",
        metavar="FILE|A,B,...",
        help="The names of the classes: a text file with one a line, or the names themselves.  [default: those of the "
        "folders, if there is one per class]",
    )
    workers: Optional[int] = option(
        "--workers",
        type=click.IntRange(min=0, max=256),
        metavar="N",
        help="Threads that decode and vary images.  [default: one for each processor]",
    )
    skip_bad: int = skip_bad_option()


@dataclass(frozen=True)
class Parallel:
    """How a training is spread over the machine."""

    instances: Optional[str] = option(
        "--instances",
        metavar="N|core|node|NxM",
        help="Train in several processes, each bound to cores of its own, that share each batch: a number of them, one "
        "on each core or memory node, or another placement of `quantkit benchmark`.  [default: this process alone]",
    )

    machines: int = option(
        "--machines",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Train on N machines, each with as many instances; the same command runs on each, with another --machine.",
    )
    machine: int = option(
        "--machine",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="K",
        help="The number of this one.",
    )
    scheduler: Optional[str] = option(
        "--scheduler", metavar="HOST:PORT", help="With --machines: where machine 0 listens for the others."
    )


@dataclass(frozen=True)
class TrainedTarget:
    """Where a trained network goes, and what becomes of it."""

    out: Optional[Path] = option(
        "--out", type=click.Path(path_type=Path), metavar="DIR", help="The folder to write.  [default: NAME-finetuned]"
    )
    force: bool = option("--force", is_flag=True, help="Replace what an earlier run wrote there.")
    restart: bool = option("--restart", is_flag=True, help="Begin anew, even if an interrupted run left a checkpoint.")
    quantize: bool = option(
        "--quantize",
        is_flag=True,
        help="Go on to INT8: write the bundle DIR-int8, and compare its accuracy with FP32's.",
    )
    price_per_hour: Optional[float] = option(
        "--price-per-hour",
        type=click.FloatRange(min=0),
        metavar="PRICE",
        help="What an hour of this machine costs, in any currency: the cost of the training is stated.",
    )


@click.command(
    cls=Verb,
    examples=(
        "quantkit finetune mobilenet0.25 --train flowers/train --val flowers/val --classes 5",
        "quantkit finetune resnet50 --train train.rec --val val.rec --classes 120 --freeze body --epochs 3",
        "quantkit finetune digits_resnet20_v1 --train digits:train --val digits:test --no-flip --quantize",
        "quantkit finetune cifar_resnet20_v1 --train mine.npz --classes 4 --optimizer adam --patience 5",
    ),
)
@click.argument("model")
@collected("samples", TrainingSamples)
@collected("learning", Learning)
@collected("varying", Varying)
@collected("parallel", Parallel)
@collected("target", TrainedTarget)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@output_options
def finetune(
    terminal: Terminal,
    model: str,
    samples: TrainingSamples,
    learning: Learning,
    varying: Varying,
    parallel: Parallel,
    target: TrainedTarget,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Train a network on your own classes.

    MODEL is a classifier: a name, a model card, a checkpoint or an ONNX file, as for `quantkit quantize`. With
    --classes its last layer is replaced; the others begin as they are. It runs on MXNet's own training, in one process
    with all its threads, or in several with --instances, which add up their gradients through MXNet's parameter server.

    After each epoch the network is judged on --val, and everything is kept in DIR.checkpoint: if the training is
    interrupted, the same command goes on from there and ends with the same weights. What is written is the network
    after the best epoch, with a card.toml, which `quantkit quantize` takes.
    """
    check_not_bundle(model)
    config = config_of(learning, varying)
    out = target.out or Path(f"{network_name(model)}-finetuned")
    int8 = out.with_name(f"{out.name}-int8")
    from quantkit.training.save import TRAINED, record_of, save_trained

    check_target(out, target.force, TRAINED)
    if target.quantize:
        check_bundle_target(int8, target.force)
    from quantkit.data.folder import class_names
    from quantkit.host.threads import worker_threads
    from quantkit.training.finetune import finetune as trained_on

    labels = _labels(samples.labels) or class_names(samples.train)
    loaded = load(terminal, model, loading, preprocessing)
    if samples.classes is None or len(labels) != samples.classes:
        labels = labels if samples.labels else ()
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    alone = parallel.instances is None and parallel.machines == 1
    workers = worker_threads() if samples.workers is None else samples.workers

    def told(epoch: Epoch) -> None:
        terminal.work.kept = f"{checkpoint} holds epoch {epoch.number}; the same command goes on from there"
        _tell(terminal, epoch, config.epochs, target.price_per_hour)

    begun = time.monotonic()
    trained = trained_on(
        loaded,
        samples.train,
        samples.val,
        classes=samples.classes,
        labels=labels,
        config=config,
        workers=workers if alone else samples.workers,
        skip_bad=samples.skip_bad,
        checkpoint=checkpoint,
        restart=target.restart,
        instances=parallel.instances,
        machines=_machines(parallel),
        progress=terminal.progress,
        told=told,
    )
    seconds = time.monotonic() - begun
    terminal.stage(f"writing {out}")
    with terminal.work.writing(out):
        card = save_trained(trained, out, out.name, target.force)
    checkpoint.unlink(missing_ok=True)
    result: dict[str, Any] = {
        "out": str(out),
        "card": str(card),
        **record_of(trained),
        "seconds": seconds,
        "resumed_epochs": trained.resumed,
        "cost": None if target.price_per_hour is None else target.price_per_hour * seconds / _HOUR,
    }
    evaluation = _quantized(terminal, trained, samples, int8, target.force) if target.quantize else None
    if evaluation is not None:
        result["int8"] = {"bundle": str(int8), **evaluation.document}
    terminal.show(result, *_tables(trained, result, evaluation, samples.train, workers))
    terminal.warn_of_left_out(trained.left_out)


def _machines(parallel: Parallel) -> Optional[Machines]:
    from quantkit.training.machines import Machines

    if parallel.machines == 1:
        return None
    if parallel.scheduler is None:
        raise click.UsageError("--machines needs --scheduler HOST:PORT, the address of machine 0")
    return Machines(parallel.machines, parallel.machine, parallel.scheduler)


def _labels(given: Optional[str]) -> tuple[str, ...]:
    from quantkit.errors import UserError
    from quantkit.files.text import read_text

    if given is None:
        return ()
    if not Path(given).is_file():
        return tuple(each.strip() for each in given.split(","))
    try:
        return tuple(read_text(Path(given)).splitlines())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read labels {given}: {error}; give a text file with one name a line") from error


def _tell(terminal: Terminal, epoch: Epoch, epochs: int, price: Optional[float]) -> None:
    """A line on an epoch: its loss, accuracy and speed, and when all will be done."""
    left = (epochs - epoch.number) * epoch.seconds
    parts = [f"epoch {epoch.number}/{epochs}: loss {epoch.loss:.4f}"]
    if epoch.validated is not None:
        parts.append(f"top-1 {percent(epoch.validated.top1)}")
    parts.append(f"{epoch.throughput:.1f} images/s")
    parts.append(f"{percent(epoch.waiting)} waiting for data")
    if left:
        parts.append(f"ends about {time.strftime('%H:%M:%S', time.localtime(time.time() + left))}")
        if price is not None:
            parts.append(f"{price * left / _HOUR:.4f} more to pay")
    terminal.tell(", ".join(parts))


def _quantized(
    terminal: Terminal, trained: FineTuned, samples: TrainingSamples, out: Path, force: bool
) -> Optional[Evaluation]:
    """Write the network's INT8 form, calibrated on the training samples; its accuracy beside FP32's on --val."""
    from quantkit.api import evaluate, quantize

    terminal.stage("quantizing")
    network = quantize(trained.model, samples.train, progress=terminal.progress, skip_bad=samples.skip_bad)
    terminal.stage(f"writing {out}")
    with terminal.work.writing(out):
        network.save(out, force)
    if samples.val is None:
        return None
    return evaluate(out, samples.val, trained.model, progress=terminal.progress)


def _tables(
    trained: FineTuned, result: dict[str, Any], evaluation: Optional[Evaluation], data: str, workers: int
) -> list[Any]:
    from rich.text import Text

    from quantkit.cli.summary import grid_of
    from quantkit.training.epoch import enough_workers

    epochs, best = trained.epochs, trained.epochs[trained.best - 1]
    seconds = sum(epoch.seconds for epoch in epochs)
    waiting = sum(epoch.waited for epoch in epochs) / seconds
    done = counted(len(epochs), "epoch")
    rows = [("trained", f"{done} of {trained.config.epochs} on {trained.data[0]}")]
    if trained.stopped_early:
        rows.append(("", f"stopped early: nothing better for {trained.config.patience} epochs"))
    if best.validated is not None:
        judged = f"{best.validated.samples} of {trained.data[1]}, after epoch {best.number}"
        rows.append(("accuracy", f"top-1 {percent(best.validated.top1)} on {judged}"))
    rows.append(("speed", f"{sum(epoch.samples for epoch in epochs) / seconds:.1f} images/s"))
    rows.append(("feed", f"{percent(waiting)} of the time waiting for data"))
    if waiting > _WAITING and workers:
        rows.append(
            ("", f"about --workers {enough_workers(workers, waiting)} would keep up, on as many free processors")
        )
    rows.append(("time", f"{seconds / 60:.1f} minutes of training"))
    if result["cost"] is not None:
        rows.append(("cost", f"{result['cost']:.4f}"))
    if evaluation is not None:
        rows += _int8_rows(evaluation)
    rows.append(("next", f"quantkit quantize {result['card']} --calib-data {data}"))
    return [Text(f"\n{trained.base}, fine-tuned, in {result['out']}", "bold"), grid_of(rows)]


def _int8_rows(evaluation: Evaluation) -> list[tuple[str, str]]:
    accuracy = evaluation.accuracy
    return [
        ("FP32", f"top-1 {percent(accuracy['reference'].top1)}"),
        ("INT8", f"top-1 {percent(accuracy['network'].top1)}"),
    ]
