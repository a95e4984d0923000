"""``quantkit feed``: whether samples can be decoded or loaded as fast as a network reads, or learns from, them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.feed_summary import WORDS, result_of, tables_of
from quantkit.cli.option_groups import Loading, Preprocessing, skip_bad_option
from quantkit.cli.options import Verb, collected, given, option, output_options
from quantkit.cli.terminal import Terminal
from quantkit.cli.training_options import Varying
from quantkit.cli.training_request import check_varied, varied
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle
from quantkit.host.threads import MOST_DECODERS

if TYPE_CHECKING:
    from quantkit.benchmark.workloads.feed import Feeding
    from quantkit.data.samples import Samples


@dataclass(frozen=True)
class Training:
    """That a network learns from the samples, and how."""

    training: bool = option(
        "--training",
        is_flag=True,
        default=False,
        help="Measure as for `quantkit finetune`: images are varied, and MODEL learns from them.",
    )
    classes: Optional[int] = option(
        "--classes",
        type=click.IntRange(min=2),
        metavar="N",
        help="With --training: the number of classes; MODEL gets a new last layer.  [default: it keeps its own]",
    )
    optimizer: Optional[str] = option(
        "--optimizer", type=click.Choice(["sgd", "adam", "adamax"]), help="With --training.  [default: sgd]"
    )
    freeze: tuple[str, ...] = option(
        "--freeze",
        multiple=True,
        metavar="GLOB",
        help="With --training: keep as they are the operators and parameters of these names; body: all but the last "
        "layer. Repeatable.",
    )
    workers: Optional[int] = option(
        "--workers",
        type=click.IntRange(min=0, max=MOST_DECODERS),
        metavar="N",
        help="With --training: threads that prepare images.  [default: as `quantkit finetune`]",
    )
    skip_bad: int = skip_bad_option("With --training: leave out up to N images that are damaged or cannot be used.")


@dataclass(frozen=True)
class _Asked:
    """What is to be measured, and for how many seconds."""

    network: str
    data: str
    batch: Optional[int]
    seconds: float
    loading: Loading
    preprocessing: Preprocessing


@click.command(
    cls=Verb,
    examples=(
        "quantkit feed resnet50_v1-int8 --data photos/",
        "quantkit feed resnet50_v1-int8 --data train.rec --batch 16",
        "quantkit feed resnet50 --data photos/ --seconds 60",
        "quantkit feed resnet50 --data photos/ --training --freeze body",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option(
    "--data", required=True, metavar="SPEC", help="Samples: a folder, FOLDER:SPLIT, .npz, .npy, .rec, builtin."
)
@click.option(
    "--batch",
    "--batch-size",
    "batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Samples in a run.  [default: 1, with --training 32]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1, max=86_400),
    default=20.0,
    show_default=True,
    metavar="S",
    help="How long to measure in all, at least.",
)
@collected("training", Training)
@collected("varying", Varying)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@output_options
def feed(
    terminal: Terminal,
    network: str,
    data: str,
    batch: Optional[int],
    seconds: float,
    training: Training,
    varying: Varying,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Measure whether decoding images keeps up with a network, or with its training.

    Measures in turns how fast images are decoded, with one worker and with all, how fast the network reads them, and
    both together. Sequences and vectors are loaded instead of decoded. A BUNDLE is measured as it is, a MODEL in INT8,
    calibrated with 10 of the samples. The verdict is FED, STARVED or NOT DISTINGUISHABLE; if the network starves,
    remedies follow.

    With --training, MODEL learns from the images in FP32, in one process, as `quantkit finetune` has it learn. They
    need no labels. The first reading is that of the first epoch, the others are those of later ones; both together are
    measured last.
    """
    from quantkit.data.sample_noun import sample_noun
    from quantkit.data.sources import load_data

    samples, asked = load_data(data), _Asked(network, data, batch, seconds, loading, preprocessing)
    if training.training:
        check_varied(varying, data)
        feeding, made = _trained(terminal, asked, training, varying)
    else:
        for name in (*given(training), *given(varying)):
            raise UserError(f"{name} is for a training; give --training, too, or leave {name} out")
        feeding, made = _read(terminal, asked, samples), {}
    result = {**result_of(feeding), **made}
    terminal.show(result, *tables_of(result, sample_noun(feeding.network.input_shape)))


def _trained(terminal: Terminal, asked: _Asked, training: Training, varying: Varying) -> tuple[Feeding, dict[str, Any]]:
    """A training, measured, and how it is made."""
    from quantkit.cli.networks import load
    from quantkit.data.left_out import documents
    from quantkit.training.config import TrainingConfig
    from quantkit.training.feed_measurement import measure_training_feed
    from quantkit.training.spinning import load_for_training

    network, data = asked.network, asked.data
    if is_bundle(network):
        raise UserError(f"{network} is a bundle; give the FP32 network it was made from, or leave --training out")
    fixed: dict[str, Any] = {"optimizer": training.optimizer or "sgd", "freeze": training.freeze}
    config = varied(varying, TrainingConfig(batch_size=asked.batch or 32, **fixed))
    # Before anything else loads MXNet.
    load_for_training(data)
    model = load(terminal, network, asked.loading, asked.preprocessing)
    terminal.stage(f"preparing {data} for a training of {model.name}, at least {asked.seconds:.0f} s")
    feeding = measure_training_feed(
        model,
        data,
        config,
        classes=training.classes,
        workers=training.workers,
        skip_bad=training.skip_bad,
        seconds=asked.seconds,
    )
    made = {
        "classes": feeding.classes,
        "optimizer": config.optimizer,
        "freeze": list(config.freeze),
        "mixup": config.mixup,
        "augmentation": asdict(config.augmentation),
        "samples": feeding.samples,
        "kept_in_memory": feeding.kept,
        "held_before": feeding.held,
        "left_out": documents(feeding.left_out),
    }
    terminal.warn_of_left_out(feeding.left_out)
    return feeding, {"training": made}


def _read(terminal: Terminal, asked: _Asked, samples: Samples) -> Feeding:
    """The network as it reads the samples in INT8, measured."""
    from quantkit.backends.mxnet.build import check_int8
    from quantkit.benchmark.workloads.feed import measure_feeding, quantized
    from quantkit.cli.networks import load, open_network
    from quantkit.data.sample_noun import sample_noun

    network, loading, preprocessing = asked.network, asked.loading, asked.preprocessing
    bundle = is_bundle(network)
    if bundle:
        for name in (*given(loading), *given(preprocessing)):
            raise UserError(f"{network} is a bundle, which has its own; leave {name} out")
        opened = open_network(terminal, network, loading)
    else:
        check_int8()
        opened = quantized(load(terminal, network, loading, preprocessing), samples, terminal.tell)
    doing = f"{WORDS[sample_noun(opened.input_shape)].loading} {samples.name} for {opened.name}"
    terminal.stage(f"{doing} ({opened.kind.upper()}), about {asked.seconds:.0f} s")
    return measure_feeding(opened, "bundle" if bundle else "quantized", samples, asked.batch or 1, asked.seconds)
