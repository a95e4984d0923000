"""``quantkit models``: the networks that quantkit knows by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Optional, Union

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.units import counted

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from quantkit.cli.console import RenderableType
    from quantkit.diagnosis.coverage import Coverage
    from quantkit.models.card import Card
    from quantkit.models.catalogue import Entry

_MOST_REASONS = 5

# Spaces between columns.
_GAP = 2

# The percentages of a card, and what they are called.
_ACCURACY = {"top1": "top-1", "top5": "top-5", "map": "mAP", "ap": "COCO AP", "miou": "mIoU"}


@click.command(
    cls=Verb,
    examples=(
        "quantkit models",
        "quantkit models --task detection",
        "quantkit models 'ssd_*_voc' --long",
        "quantkit models resnet50",
        "quantkit models --json | jq '.models[].name'",
    ),
)
@click.argument("pattern", metavar="[NAME|GLOB]", required=False)
@click.option(
    "--task", metavar="TASK", help="Only networks for this task: classification, detection, segmentation, pose ..."
)
@click.option("--family", metavar="NAME", help="Only networks of this architecture, such as resnet or ssd.")
@click.option(
    "--long", "as_long", is_flag=True, help="Also say how images are preprocessed and where weights come from."
)
@output_options
def models(
    terminal: Terminal, pattern: Optional[str], task: Optional[str], family: Optional[str], as_long: bool
) -> None:
    """List networks by name, or describe one.

    Each can be given as MODEL by its name or alias. Without a NAME, a GLOB, a task or a family, this lists the networks
    that have a model card; with one, those of GluonCV's zoo without a card as well. For one NAME it builds the network
    with random weights, and shows the number of parameters, the multiply-accumulates and their share in INT8.
    """
    from quantkit.models.card import cards
    from quantkit.models.catalogue import catalogue, is_glob, of_cards, search

    if pattern is not None and not is_glob(pattern):
        if task or family:
            raise UserError(f"{pattern} is one network; give --task and --family with a glob, such as '{pattern}*'")
        _describe(terminal, pattern)
        return
    everything = (pattern, task, family) == (None, None, None)
    entries = of_cards(cards()) if everything else search(catalogue(), pattern or "*", task, family)
    known = {entry.name: _entry(entry) for entry in entries}
    described = [entry.card for entry in entries if entry.card and as_long]
    rest = {name: each for name, each in known.items() if name not in {card.name for card in described}}
    shown = [*_long(described, known), *([_short(rest)] if rest else ())]
    terminal.show({"models": list(known.values())}, *shown, _legend())


def _describe(terminal: Terminal, name: str) -> None:
    """What one network is, and how much of it would run in INT8."""
    from quantkit.diagnosis.coverage import planned_coverage
    from quantkit.models.card import Card
    from quantkit.models.load import load_model
    from quantkit.models.locate import locate

    card = locate(name)
    if not isinstance(card, Card):
        raise UserError(f"{name} is a file and not a network by name; `quantkit explain {name}` tells of it")
    terminal.stage(f"building {card.name}")
    computed = planned_coverage(load_model(name, weights="random", quiet=True))
    known = {card.name: _description(card)}
    coverage = {**asdict(computed), "share": computed.share}
    result = {"models": [{**known[card.name], "coverage": coverage}]}
    notes = (f"note: {note}" for note in card.notes)
    terminal.show(result, *_long([card], known), _coverage(computed), *notes, _legend())


def _legend() -> Text:
    from rich.text import Text

    return Text.assemble(
        "\nWeights that are ",
        ("here", "green"),
        " lie on this machine; the others are fetched at the first use.\n"
        "All of GluonCV's zoo: quantkit models '*'. Next: quantkit quantize NAME",
    )


def _entry(entry: Entry) -> dict[str, Any]:
    if entry.card is not None:
        return _description(entry.card)
    return {
        "name": entry.name,
        "task": entry.task,
        "family": entry.family,
        "aliases": [],
        "description": "",
        "input_shape": list(entry.input_shape),
        "accuracy": asdict(entry.accuracy) if entry.accuracy else None,
        "sources": [],
        "quantized_as": entry.quantized_as,
        "notes": [],
    }


def _description(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "task": card.task,
        "family": card.family,
        "aliases": list(card.aliases),
        "description": card.description,
        "input_shape": list(card.input_shape),
        "classes": card.classes,
        "preprocess": asdict(card.preprocess) if card.preprocess else None,
        "accuracy": asdict(card.accuracy) if card.accuracy else None,
        "sources": _sources(card),
        "quantized_as": None,
        "notes": list(card.notes),
    }


def _sources(card: Card) -> list[dict[str, Any]]:
    from quantkit.models.weight_store import on_disk

    if card.params is not None:
        path = card.file(card.params)
        return [{"kind": "file", "location": card.params, "cached": path.is_file()}]
    return [
        {"kind": source.kind, "location": source.location, "cached": on_disk(card, source) is not None}
        for source in card.sources
    ]


def _short(known: dict[str, dict[str, Any]]) -> Table:
    """A table with one row per network.

    Columns that would be empty, tasks where all have the same, and aliases that a narrow terminal would cut are left
    out.
    """
    from rich.table import Table

    from quantkit.cli.console import PlainConsole

    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="bold")
    networks = known.values()
    columns: dict[str, list[Union[str, Text]]] = {"name": [each["name"] for each in networks]}
    if len({each["task"] for each in networks}) > 1:
        columns["task"] = [each["task"] for each in networks]
    columns["input"] = [_size(each) for each in networks]
    columns["accuracy"] = [_figure(_known(each["accuracy"])) for each in networks]
    columns["weights"] = [_whereabouts(each) for each in networks]
    columns["aliases"] = [", ".join(each["aliases"]) for each in networks]
    filled = {title: cells for title, cells in columns.items() if any(cells)}
    if sum(max(map(len, (title, *cells))) + _GAP for title, cells in filled.items()) > PlainConsole().width:
        filled.pop("aliases", None)
    for title in filled:
        table.add_column(title, no_wrap=title != "weights")
    # Names are what other commands take: in a narrow terminal all else gives way.
    table.columns[0].min_width = max(map(len, known))
    for row in zip(*filled.values()):
        table.add_row(*row)
    return table


def _known(accuracy: Optional[dict[str, Any]]) -> dict[str, Any]:
    """The figures that are known."""
    return {name: value for name, value in (accuracy or {}).items() if value is not None}


def _figure(accuracy: dict[str, Any]) -> str:
    """The first that there is, in the order of ``_ACCURACY``."""
    return next((f"{accuracy[name]:.1f} % {title}" for name, title in _ACCURACY.items() if name in accuracy), "")


def _size(known: dict[str, Any]) -> str:
    return "x".join(map(str, known["input_shape"]))


def _whereabouts(known: dict[str, Any]) -> Union[str, Text]:
    from rich.text import Text

    if known["quantized_as"]:
        return "the FP32 network's"
    if any(source["cached"] for source in known["sources"]):
        return Text("here", "green")
    return ", ".join(dict.fromkeys(source["kind"] for source in known["sources"])) or "none"


def _accuracy(figures: dict[str, Any]) -> str:
    known = _known(figures)
    percentages = [f"{title} {known[name]} %" for name, title in _ACCURACY.items() if name in known]
    perplexity = [f"perplexity {known['perplexity']}"] if "perplexity" in known else []
    return f"{', '.join((*percentages, *perplexity))} ({figures['origin']})"


def _long(cards: Sequence[Card], known: dict[str, dict[str, Any]]) -> list[RenderableType]:
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in cards:
        card = known[each.name]
        table = _grid()
        if card["aliases"]:
            table.add_row("  aliases", ", ".join(card["aliases"]))
        table.add_row("  task", card["task"] if card["family"] is None else f"{card['task']}, family {card['family']}")
        table.add_row("  input", f"{_size(card)}, {card['classes']} classes")
        table.add_row("  images", each.preprocess.text if each.preprocess else "preprocessed arrays only")
        if card["accuracy"]:
            table.add_row("  accuracy", _accuracy(card["accuracy"]))
        for source in card["sources"]:
            here = " here" if source["cached"] else ""
            location = f"{source['kind']}: {source['location']}"
            table.add_row("  weights", Text.assemble(location, (here, "green")))
        parts += [Text.assemble((card["name"], "bold"), f"  {card['description']}"), table]
    return parts


def _coverage(computed: Coverage) -> Table:
    table = _grid()
    table.add_row("  size", f"{computed.parameters / 1e6:.2f} million parameters, {computed.macs / 1e9:.3f} GMAC")
    table.add_row(
        "  INT8", f"{computed.int8_layers} of {computed.layers} layers, {100 * computed.share:.1f} % of the MACs"
    )
    for reason in _reasons(computed):
        table.add_row("  FP32", reason)
    return table


def _reasons(computed: Coverage) -> Iterable[str]:
    for left in computed.left[:_MOST_REASONS]:
        share = 100 * left.macs / computed.macs
        yield f"{counted(left.layers, 'layer')}, {share:.1f} % of the MACs: {left.reason}"
    if len(computed.left) > _MOST_REASONS:
        yield f"and others for {len(computed.left) - _MOST_REASONS} more reasons"


def _grid() -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10, style="cyan")
    return table
