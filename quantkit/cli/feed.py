"""``quantkit feed``: whether samples can be decoded or loaded as fast as a network reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.options import Verb, collected, given, output_options
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle
from quantkit.units import megabytes, percent

if TYPE_CHECKING:
    from rich.text import Text

    from quantkit.benchmark.workloads.feed import Feeding
    from quantkit.cli.console import RenderableType
    from quantkit.data.sample_noun import SampleNoun
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


@click.command(
    cls=Verb,
    examples=(
        "quantkit feed resnet50_v1-int8 --data photos/",
        "quantkit feed resnet50_v1-int8 --data train.rec --batch 16",
        "quantkit feed resnet50 --data photos/ --seconds 60",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option(
    "--data", required=True, metavar="SPEC", help="Samples: a folder, FOLDER:SPLIT, .npz, .npy, .rec, builtin."
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Samples in a run."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1, max=86_400),
    default=20.0,
    show_default=True,
    metavar="S",
    help="How long to measure in all.",
)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@output_options
def feed(
    terminal: Terminal,
    network: str,
    data: str,
    batch: int,
    seconds: float,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Measure whether decoding images keeps up with a network.

    Measures in turns how fast images are decoded, with one worker and with all, how fast the network reads them, and
    both together. Sequences and vectors are loaded instead of decoded. A BUNDLE is measured as it is, a MODEL in INT8,
    calibrated with 10 of the samples. The verdict is FED, STARVED or NOT DISTINGUISHABLE; if the network starves,
    remedies follow.
    """
    from quantkit.backends.mxnet.build import check_int8
    from quantkit.benchmark.workloads.feed import measure_feeding, quantized
    from quantkit.cli.networks import load, open_network
    from quantkit.data.sample_noun import sample_noun
    from quantkit.data.sources import load_data

    samples = load_data(data)
    bundle = is_bundle(network)
    if bundle:
        for name in (*given(loading), *given(preprocessing)):
            raise UserError(f"{network} is a bundle, which has its own; leave {name} out")
        opened = open_network(terminal, network, loading)
    else:
        check_int8()
        opened = quantized(load(terminal, network, loading, preprocessing), samples, terminal.tell)
    noun = sample_noun(opened.input_shape)
    doing = f"{_WORDS[noun].loading} {samples.name} for {opened.name} ({opened.kind.upper()})"
    terminal.stage(f"{doing}, about {seconds:.0f} s")
    feeding = measure_feeding(opened, "bundle" if bundle else "quantized", samples, batch, seconds)
    result = _result(feeding)
    terminal.show(result, *_tables(result, noun))


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

    rates, words = result["images_per_second"], _WORDS[noun]
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
        (f"{kind} network, batch {batch}", "network"),
        (f"network over {words.loaded} {noun}s, {workers}", "together"),
    ):
        rate = rates[name]
        table.add_row(label, f"{rate['median']:.0f}", f"{rate['low']:.0f} to {rate['high']:.0f}")
    measured = f"{kind} bundle" if result["form"] == "bundle" else f"quantized to {kind} for this"
    title = Text(f"\n{result['network']} ({measured}) over {result['images']} {noun}s of {result['data']}", "bold")
    times = f"{words.loading} {result['decoding_ms']:.2g} ms, {words.preparing} {result['preprocessing_ms']:.2g} ms"
    waiting = f"the network waited for {noun}s {percent(result['waiting'])} of the time"
    advised = (f"  {each}" for each in result["advice"])
    warned = (Text.assemble(("warning", "yellow"), f": {each}") for each in result["warnings"])
    return [title, table, f"\none {noun}: {times}; {waiting}", _verdict(result, noun), *advised, *warned]


def _verdict(result: dict[str, Any], noun: SampleNoun) -> Text:
    from rich.text import Text

    lead, verdict, words = result["decoded_per_read"], result["verdict"], _WORDS[noun]
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
