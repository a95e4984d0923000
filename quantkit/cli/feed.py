"""``quantkit feed``: whether samples can be decoded or loaded as fast as a network reads, or learns from, them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.options import Verb, collected, given, option, output_options
from quantkit.cli.terminal import Terminal
from quantkit.cli.training_options import Varying
from quantkit.cli.training_request import augmented, check_varied
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle
from quantkit.host.threads import MOST_DECODERS
from quantkit.units import megabytes, percent

if TYPE_CHECKING:
    from rich.text import Text

    from quantkit.benchmark.workloads.feed import Feeding, FeedingForm
    from quantkit.cli.console import RenderableType
    from quantkit.data.sample_noun import SampleNoun
    from quantkit.data.samples import Samples
    from quantkit.evaluation.feed import Rate


@dataclass(frozen=True)
class _Words:
    """What is done to a stored sample before a network reads it, and what the sample is called afterwards."""

    loading: str
    loaded: str
    preparing: str


_WORDS: dict[SampleNoun, _Words] = {
    "image": _Words("decoding", "decoded", "preprocessing"),
    "sample": _Words("loading", "loaded", "preparing"),
}
_FORMS: dict[FeedingForm, str] = {
    "bundle": "{} bundle",
    "quantized": "quantized to {} for this",
    "trained": "{}, in training",
}

_TRAINING = _Words("preparing", "prepared", "varying and preprocessing")


@dataclass(frozen=True)
class Training:
    """That a network learns from the samples, and how."""

    training: bool = option(
        "--training",
        is_flag=True,
        default=False,
        help="Measure as for `quantkit finetune`: images are varied, and MODEL learns from them.",
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
    help="How long to measure in all.",
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

    With --training, MODEL learns from the images in FP32 as `quantkit finetune` has it learn. They need no labels. The
    first reading is that of the first epoch, the others are those of later ones.
    """
    from quantkit.data.sample_noun import sample_noun
    from quantkit.data.sources import load_data

    samples, bundle = load_data(data), is_bundle(network)
    if training.training:
        if bundle:
            raise UserError(f"{network} is a bundle; --training measures an FP32 network: give it, or no --training")
        check_varied(varying, data)
        feeding = _trained(terminal, network, samples, batch or 32, seconds, training, varying, loading, preprocessing)
    else:
        for name in (*given(training), *given(varying)):
            raise UserError(f"{name} is for a training; give --training, too, or leave {name} out")
        feeding = _read(terminal, network, bundle, samples, batch or 1, seconds, loading, preprocessing)
    result = _result(feeding)
    terminal.show(result, *_tables(result, sample_noun(feeding.network.input_shape)))


def _trained(
    terminal: Terminal,
    network: str,
    samples: Samples,
    batch: int,
    seconds: float,
    training: Training,
    varying: Varying,
    loading: Loading,
    preprocessing: Preprocessing,
) -> Feeding:
    from quantkit.cli.networks import load
    from quantkit.training.config import TrainingConfig
    from quantkit.training.feed_measurement import measure_training_feed
    from quantkit.training.spinning import spin_briefly

    config = augmented(varying, TrainingConfig(batch_size=batch, freeze=training.freeze))
    # Loading a network may load MXNet.
    spin_briefly(samples)
    model = load(terminal, network, loading, preprocessing)
    terminal.stage(f"preparing {samples.name} for a training of {model.name}, about {seconds:.0f} s")
    return measure_training_feed(model, samples, config, training.workers, seconds)


def _read(
    terminal: Terminal,
    network: str,
    bundle: bool,
    samples: Samples,
    batch: int,
    seconds: float,
    loading: Loading,
    preprocessing: Preprocessing,
) -> Feeding:
    from quantkit.backends.mxnet.build import check_int8
    from quantkit.benchmark.workloads.feed import measure_feeding, quantized
    from quantkit.cli.networks import load, open_network
    from quantkit.data.sample_noun import sample_noun

    if bundle:
        for name in (*given(loading), *given(preprocessing)):
            raise UserError(f"{network} is a bundle, which has its own; leave {name} out")
        opened = open_network(terminal, network, loading)
    else:
        check_int8()
        opened = quantized(load(terminal, network, loading, preprocessing), samples, terminal.tell)
    doing = f"{_WORDS[sample_noun(opened.input_shape)].loading} {samples.name} for {opened.name}"
    terminal.stage(f"{doing} ({opened.kind.upper()}), about {seconds:.0f} s")
    return measure_feeding(opened, "bundle" if bundle else "quantized", samples, batch, seconds)


def _result(feeding: Feeding) -> dict[str, Any]:
    """A measurement as JSON values: rates in samples per second, times in ms for one sample, shares from 0 to 1."""
    network, feed = feeding.network, feeding.feed
    return {
        "network": network.name,
        "form": feeding.form,
        "kind": network.kind,
        "weights": network.weights,
        "data": feeding.data,
        "batch": feed.batch,
        "workers": feed.workers,
        "images": feed.distinct,
        "short_side": feed.images.short_side,
        "decoding_ms": feed.images.decoding,
        "preprocessing_ms": feed.images.preprocessing,
        "images_per_second": {
            "first_pass": feed.first_pass,
            "one_worker": _rate(feed.one_worker),
            "all_workers": _rate(feed.all_workers),
            "network": _rate(feed.network),
            "together": _rate(feed.together),
        },
        "first_pass_bytes_from_storage": feed.from_storage,
        "waiting": feed.waiting,
        "verdict": feed.verdict,
        "decoded_per_read": feed.lead,
        "advice": list(feeding.advice),
        "warnings": list(feeding.warnings),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"median": rate.median, "low": min(rate.rounds), "high": max(rate.rounds), "rounds": list(rate.rounds)}


def _tables(result: dict[str, Any], noun: SampleNoun) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    rates, words, form = result["images_per_second"], _words(result, noun), result["form"]
    kind, batch = result["kind"].upper(), result["batch"]
    workers = f"{result['workers']} workers" if result["workers"] > 1 else "1 worker"
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column, justify in (("", "left"), (f"{noun}s/s", "right"), ("lowest to highest round", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    stored = result["first_pass_bytes_from_storage"]
    source = "" if stored is None else f"{megabytes(stored)} came from storage" if stored else "the files were cached"
    table.add_row(f"{words.loading}, first reading, {workers}", f"{rates['first_pass']:.0f}", source)
    for label, name in (
        (f"{words.loading} again, 1 worker", "one_worker"),
        (f"{words.loading} again, {workers}", "all_workers"),
        (f"{kind} network{' in training' if form == 'trained' else ''}, batch {batch}", "network"),
        (f"network over {words.loaded} {noun}s, {workers}", "together"),
    ):
        rate = rates[name]
        table.add_row(label, f"{rate['median']:.0f}", f"{rate['low']:.0f} to {rate['high']:.0f}")
    measured = _FORMS[form].format(kind)
    title = Text(f"\n{result['network']} ({measured}) over {result['images']} {noun}s of {result['data']}", "bold")
    decoding, preparing = (f"{result[name]:.2g} ms" for name in ("decoding_ms", "preprocessing_ms"))
    times = f"{_WORDS[noun].loading} {decoding}, {words.preparing} {preparing}"
    waiting = f"the network waited for {noun}s {percent(result['waiting'])} of the time"
    advised = (f"  {each}" for each in result["advice"])
    warned = (Text.assemble(("warning", "yellow"), f": {each}") for each in result["warnings"])
    return [title, table, f"\none {noun}: {times}; {waiting}", _verdict(result, noun), *advised, *warned]


def _words(result: dict[str, Any], noun: SampleNoun) -> _Words:
    return _TRAINING if result["form"] == "trained" else _WORDS[noun]


def _verdict(result: dict[str, Any], noun: SampleNoun) -> Text:
    from rich.text import Text

    lead, verdict, words = result["decoded_per_read"], result["verdict"], _words(result, noun)
    if verdict == "not distinguishable":
        word, style = "NOT DISTINGUISHABLE", "bold yellow"
        why = f"the rounds of {words.loading} and those of the network overlap; measure again when nothing else runs"
    elif verdict == "starved":
        word, style = "STARVED", "bold red"
        why = f"the network could read {1 / lead:.1f} times as many {noun}s as can be {words.loaded}"
    else:
        word, style = "FED", "bold green"
        why = f"{lead:.1f} times as many {noun}s can be {words.loaded} as the network reads"
    return Text.assemble((word, style), f": {why}")
