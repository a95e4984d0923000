"""What ``quantkit feed`` prints of a measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantkit.units import megabytes, per_second, percent

if TYPE_CHECKING:
    from rich.text import Text

    from quantkit.benchmark.workloads.feed import Feeding, FeedingForm
    from quantkit.cli.console import RenderableType
    from quantkit.data.sample_noun import SampleNoun
    from quantkit.evaluation.stream_rates import Rate


@dataclass(frozen=True)
class Words:
    """What is done to a stored sample before a network reads it, and what the sample is called afterwards."""

    loading: str
    loaded: str
    preparing: str
    reads: str = "reads"
    read: str = "read"


WORDS: dict[SampleNoun, Words] = {
    "image": Words("decoding", "decoded", "preprocessing"),
    "sample": Words("loading", "loaded", "preparing"),
}
_IN_TRAINING: dict[SampleNoun, Words] = {
    "image": Words("preparing", "prepared", "varying and preprocessing", "learns from", "learn from"),
    "sample": Words("preparing", "prepared", "preparing", "learns from", "learn from"),
}
_FORMS: dict[FeedingForm, str] = {
    "bundle": "{} bundle",
    "quantized": "quantized to {} for this",
    "trained": "{}, in training",
}


def result_of(feeding: Feeding) -> dict[str, Any]:
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


def tables_of(result: dict[str, Any], noun: SampleNoun) -> list[RenderableType]:
    """What is printed: a title, the rates, and what they mean."""
    from rich.table import Table
    from rich.text import Text

    rates, words, form = result["images_per_second"], _words(result, noun), result["form"]
    training = result.get("training", {})
    held = training.get("held_before", False)
    kind, batch = result["kind"].upper(), result["batch"]
    workers = f"{result['workers']} workers" if result["workers"] > 1 else "1 worker"
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column, justify in (("", "left"), (f"{noun}s/s", "right"), ("lowest to highest round", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    stored = result["first_pass_bytes_from_storage"]
    source = "" if stored is None else f"{megabytes(stored)} came from storage" if stored else "the files were cached"
    if not held:
        table.add_row(f"{words.loading}, first reading, {workers}", per_second(rates["first_pass"]), source)
    for label, name in (
        (f"{words.loading} again, 1 worker", "one_worker"),
        (f"{words.loading} again, {workers}", "all_workers"),
        (f"{kind} network{' in training' if form == 'trained' else ''}, batch {batch}", "network"),
        (f"network over {words.loaded} {noun}s, {workers}", "together"),
    ):
        rate = rates[name]
        if name == "one_worker" and result["workers"] == 1:
            continue
        table.add_row(label, per_second(rate["median"]), f"{per_second(rate['low'])} to {per_second(rate['high'])}")
    measured = _FORMS[form].format(kind)
    number = f"{result['images']} of {training['samples']}" if training else f"{result['images']}"
    title = Text(f"\n{result['network']} ({measured}) over {number} {noun}s of {result['data']}", "bold")
    decoding, preparing = (f"{result[name]:.2g} ms" for name in ("decoding_ms", "preprocessing_ms"))
    times = f"{'reading' if held else WORDS[noun].loading} {decoding}, {words.preparing} {preparing}"
    waiting = f"the network waited for {noun}s {percent(result['waiting'])} of the time"
    advised = (f"  {each}" for each in result["advice"])
    warned = (Text.assemble(("warning", "yellow"), f": {each}") for each in result["warnings"])
    return [title, table, f"\none {noun}: {times}; {waiting}", _verdict(result, noun), *advised, *warned]


def _words(result: dict[str, Any], noun: SampleNoun) -> Words:
    return (_IN_TRAINING if result["form"] == "trained" else WORDS)[noun]


def _verdict(result: dict[str, Any], noun: SampleNoun) -> Text:
    from rich.text import Text

    lead, verdict, words = result["decoded_per_read"], result["verdict"], _words(result, noun)
    if verdict == "not distinguishable":
        word, style = "NOT DISTINGUISHABLE", "bold yellow"
        why = f"the rounds of {words.loading} and those of the network overlap; measure again when nothing else runs"
    elif verdict == "starved":
        word, style = "STARVED", "bold red"
        why = f"the network could {words.read} {1 / lead:.1f} times as many {noun}s as can be {words.loaded}"
    else:
        word, style = "FED", "bold green"
        why = f"{lead:.1f} times as many {noun}s can be {words.loaded} as the network {words.reads}"
    return Text.assemble((word, style), f": {why}")
