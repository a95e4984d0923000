"""``quantkit finetune``: a trained network learns the user's own classes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.epochs import HOUR, EpochReport, check_name, checkpoint_beside, remove_checkpoint
from quantkit.cli.finetune_int8 import quantization_aware
from quantkit.cli.networks import load_trained
from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.options import Verb, collected, output_options
from quantkit.cli.targets import check_bundle_target, check_not_bundle, check_target, network_name
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
    from quantkit.training.finetune import FineTuned


@click.command(
    cls=Verb,
    examples=(
        "quantkit finetune mobilenet0.25 --train flowers/train --val flowers/val --classes 5",
        "quantkit finetune resnet50 --train train.rec --val val.rec --classes 120 --freeze body --epochs 3",
        "quantkit finetune digits_resnet20_v1 --train digits:train --val digits:test --no-flip --quantize",
        "quantkit finetune cifar_resnet20_v1 --train mine.npz --classes 4 --optimizer adam --patience 5",
        "quantkit finetune net-int8 --qat --reference my/net.toml --train photos:calib --val photos:test",
    ),
)
@click.argument("model", metavar="MODEL|BUNDLE")
@collected("samples", TrainingSamples)
@collected("learning", Learning)
@collected("varying", Varying)
@collected("parallel", Parallel)
@collected("aware", Aware)
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
    aware: Aware,
    target: TrainedTarget,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Train a network on your own classes.

    MODEL is a classifier: a name, a model card, a checkpoint or an ONNX file, as for `quantkit quantize`. With
    --classes its last layer is replaced; the others begin with trained weights, or with random ones if --weights random
    is given. It runs on MXNet's own training, in one process with all its threads, or in several with --instances,
    which add up their gradients.

    With --qat, an INT8 bundle is trained instead, with its own rounding in the loop, towards the scores of the FP32
    --reference; batch normalization is folded and frozen. The result is a bundle again. If no epoch agrees better with
    FP32 on --val, it holds the network as it was.

    After each epoch the network is judged on --val, and everything is kept in DIR.checkpoint: if the training is
    interrupted, the same command goes on from there and ends with the same weights (with up to two instances). What
    is written is the network after the best epoch, with a card.toml, which `quantkit quantize` takes.
    """
    if aware.qat:
        quantization_aware(terminal, model, samples, learning, varying, parallel, aware, target, loading, preprocessing)
        return
    if aware.reference is not None or not aware.distill:
        odd = "--no-distill" if aware.reference is None else "--reference"
        raise click.UsageError(f"{odd} is for --qat; leave it out, or give --qat")
    check_not_bundle(model, "give the FP32 network it was made from, or train the bundle itself with --qat")
    from quantkit.training.config import TrainingConfig

    config = config_of(learning, varying, TrainingConfig())
    machines = machines_of(parallel)
    out = target.out or Path(f"{network_name(model)}-finetuned")
    check_name(out)
    int8 = out.with_name(f"{out.name}-int8")
    from quantkit.training.save import TRAINED, record_of, save_trained
    from quantkit.training.spinning import load_for_training

    check_target(out, target.force, TRAINED)
    # Before anything else loads MXNet.
    load_for_training(samples.train)
    if target.quantize:
        from quantkit.backends.mxnet.build import check_int8

        check_bundle_target(int8, target.force)
        check_int8()
    from quantkit.training.finetune import finetune as trained_on

    check_varied(varying, samples.train)
    labels = _labels(samples.labels)
    loaded = load_trained(terminal, model, loading, preprocessing, "train it from scratch with --weights random")
    checkpoint = checkpoint_beside(terminal, out, target.restart)
    report = EpochReport(terminal, checkpoint, config.epochs, target.restart, target.price_per_hour)
    begun = time.monotonic()
    trained = trained_on(
        loaded,
        samples.train,
        samples.val,
        classes=samples.classes,
        labels=labels,
        config=config,
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
        card = save_trained(trained, out, out.name, target.force)
    remove_checkpoint(terminal, checkpoint)
    if target.quantize:
        terminal.tell(f"{card} is complete; should the rest fail, `quantkit quantize {card}` does it")
    evaluation = _quantized(terminal, trained, samples, int8, target.force) if target.quantize else None
    seconds = time.monotonic() - begun
    result: dict[str, Any] = {
        "out": str(out),
        "card": str(card),
        **record_of(trained),
        "seconds": seconds,
        "resumed_epochs": trained.resumed,
        "cost": None if target.price_per_hour is None else target.price_per_hour * seconds / HOUR,
    }
    if target.quantize:
        result["int8"] = {"bundle": str(int8), **(evaluation.document if evaluation else {})}
    terminal.show(result, *_tables(trained, result, evaluation, samples.train))
    terminal.warn_of_left_out(trained.left_out)
    terminal.warn_of_left_out(trained.validation_left_out)


def _labels(text: Optional[str]) -> tuple[str, ...]:
    from quantkit.errors import UserError
    from quantkit.files.text import read_text

    if text is None:
        return ()
    if "," in text:
        return tuple(each.strip() for each in text.split(","))
    try:
        return tuple(read_text(Path(text)).splitlines())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read labels {text}: {error}; give a text file with one name a line") from error


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
    return evaluate(out, samples.val, trained.model, progress=terminal.progress, skip_bad=samples.skip_bad)


def _tables(trained: FineTuned, result: dict[str, Any], evaluation: Optional[Evaluation], data: str) -> list[Any]:
    from rich.text import Text

    from quantkit.cli.summary import grid_of

    epochs, best, config = trained.epochs, trained.epochs[trained.best - 1], trained.config
    rows = [
        trained_row(epochs, config.epochs, trained.data[0]),
        *early_rows(epochs, config.epochs, config.patience),
    ]
    if best.validated is not None:
        judged = f"{best.validated.samples} of {trained.data[1]}, after epoch {best.number}"
        rows.append(("accuracy", f"top-1 {percent(best.validated.top1)} on {judged}"))
    rows += [*speed_rows(epochs, trained.workers), *cost_rows(result["cost"], trained.resumed)]
    if evaluation is not None:
        rows += _int8_rows(evaluation)
    if "int8" in result:
        bundle = result["int8"]["bundle"]
        rows += [("bundle", bundle), ("next", f"quantkit evaluate {bundle} --data IMAGES --reference {result['card']}")]
    else:
        rows.append(("next", f"quantkit quantize {result['card']} --calib-data {data}"))
    return [Text(f"\n{trained.base}, fine-tuned, in {result['out']}", "bold"), grid_of(rows)]


def _int8_rows(evaluation: Evaluation) -> list[tuple[str, str]]:
    accuracy = evaluation.accuracy
    return [
        ("FP32", f"top-1 {percent(accuracy['reference'].top1)}"),
        ("INT8", f"top-1 {percent(accuracy['network'].top1)}"),
    ]
