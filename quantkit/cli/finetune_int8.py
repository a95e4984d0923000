"""``quantkit finetune --qat``: an INT8 network learns what FP32 computes."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.epochs import HOUR, EpochReport, check_name, checkpoint_beside, remove_checkpoint
from quantkit.cli.networks import load_trained
from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.targets import check_bundle_target
from quantkit.cli.terminal import Terminal
from quantkit.cli.training_options import (
    Aware,
    Learning,
    Parallel,
    TrainedTarget,
    TrainingSamples,
    Varying,
)
from quantkit.cli.training_request import check_varied, config_of, machines_of
from quantkit.cli.training_summary import cost_rows, early_rows, speed_rows, trained_row
from quantkit.units import percent

if TYPE_CHECKING:
    from quantkit.evaluation.evaluate import Evaluation
    from quantkit.training.trained_int8 import TrainedInt8


def quantization_aware(
    terminal: Terminal,
    bundle: str,
    samples: TrainingSamples,
    learning: Learning,
    varying: Varying,
    parallel: Parallel,
    aware: Aware,
    target: TrainedTarget,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Train a bundle's network, write what comes of it, and compare it with the bundle on the validation samples."""
    from quantkit.errors import UserError
    from quantkit.files.bundles import is_bundle

    if not is_bundle(bundle):
        raise UserError(
            f"{bundle} is no bundle; quantize the network first, and give the bundle and --reference {bundle}"
        )
    if aware.reference is None:
        raise click.UsageError("--qat needs --reference MODEL, the FP32 network that the bundle was made from")
    odd = (("--classes", samples.classes), ("--labels", samples.labels), ("--quantize", target.quantize))
    other = [name for name, value in odd if value]
    if other:
        raise click.UsageError(f"{other[0]} is not for --qat; leave it out")
    machines = machines_of(parallel)
    out = target.out or Path(f"{Path(bundle).name}-qat")
    check_name(out)
    check_bundle_target(out, target.force)
    from quantkit.api import evaluate
    from quantkit.backends.mxnet.build import check_int8
    from quantkit.bundle.quantized_model import FORMATS, MXNET, check_formats
    from quantkit.bundle.read import read_bundle
    from quantkit.bundle.reopened import reopened
    from quantkit.data.samples import skipping, unlabelled
    from quantkit.data.sources import load_data
    from quantkit.training.quantization_aware import QUANTIZATION_AWARE, train_quantized
    from quantkit.training.spinning import load_for_training

    load_for_training(samples.train)
    check_int8()
    config = config_of(learning, varying, QUANTIZATION_AWARE)
    check_varied(varying, samples.train)
    otherwise = "give --weights random if the bundle was made so"
    original = load_trained(terminal, aware.reference, loading, preprocessing, otherwise)
    checkpoint = checkpoint_beside(terminal, out, target.restart)
    source = read_bundle(bundle)
    formats = FORMATS if source.holds_onnx else (MXNET,)
    check_formats(formats)
    quantized = reopened(source, original, unlabelled(skipping(load_data(samples.train), samples.skip_bad)))
    report = EpochReport(terminal, checkpoint, config.epochs, target.restart, target.price_per_hour, "agreement")
    begun = time.monotonic()
    trained = train_quantized(
        quantized,
        samples.train,
        samples.val,
        config=config,
        distill=aware.distill,
        workers=samples.workers,
        skip_bad=samples.skip_bad,
        checkpoint=checkpoint,
        restart=target.restart,
        instances=parallel.instances,
        machines=machines,
        kvstore=parallel.kvstore,
        compress=parallel.compress,
        progress=report.progress,
        on_epoch=report.told,
    )
    terminal.stage(f"writing {out}")
    with terminal.work.writing(out):
        trained.network.save(out, target.force, formats)
    remove_checkpoint(terminal, checkpoint)
    evaluation = None
    if samples.val is not None:
        evaluation = evaluate(
            out, samples.val, original, against=quantized, progress=terminal.progress, skip_bad=samples.skip_bad
        )
    seconds, price = time.monotonic() - begun, target.price_per_hour
    cost = None if price is None else price * seconds / HOUR
    _show(terminal, bundle, out, trained, seconds, cost, evaluation)


def _show(
    terminal: Terminal,
    bundle: str,
    out: Path,
    trained: TrainedInt8,
    seconds: float,
    cost: Optional[float],
    evaluation: Optional[Evaluation],
) -> None:
    from rich.text import Text

    from quantkit.cli.summary import grid_of
    from quantkit.data.left_out import documents
    from quantkit.training.epoch import document_of

    result = {
        "out": str(out),
        "train": trained.data[0],
        "validation": trained.data[1],
        "config": asdict(trained.config),
        "distill": trained.distill,
        "before": None if trained.before is None else asdict(trained.before),
        "epochs": [document_of(epoch) for epoch in trained.epochs],
        "best_epoch": trained.best,
        "resumed_epochs": trained.resumed,
        "seconds": seconds,
        "cost": cost,
        "left_out": documents(trained.left_out),
        "validation_left_out": documents(trained.validation_left_out),
        "evaluation": None if evaluation is None else evaluation.document,
    }
    title = Text(f"\n{bundle}, trained with its quantization, in {out}", "bold")
    epochs, config = trained.epochs, trained.config
    rows = [
        trained_row(epochs, config.epochs, trained.data[0]),
        *early_rows(epochs, config.epochs, config.patience),
        *_agreement_rows(trained, evaluation),
        *speed_rows(epochs, trained.workers),
        *cost_rows(cost, trained.resumed),
    ]
    terminal.show(result, title, grid_of(rows))
    terminal.warn_of_left_out(trained.left_out)
    terminal.warn_of_left_out(trained.validation_left_out)


def _agreement_rows(trained: TrainedInt8, evaluation: Optional[Evaluation]) -> list[tuple[str, str]]:
    rows = []
    if trained.before is not None:
        best = trained.epochs[trained.best - 1].validated if trained.best else None
        after = "no epoch was better: the network is as it was"
        if best is not None:
            after = f"{percent(best.top1)} after epoch {trained.best}"
        rows.append(("agreement", f"{percent(trained.before.top1)} with FP32 on {trained.data[1]}; {after}"))
    if evaluation is not None:
        rows += [
            (each.measure, f"against the bundle: {each.result.verdict}, on the same samples, which chose the epoch")
            for each in evaluation.comparisons
            if each.other == "against"
        ]
    return rows
