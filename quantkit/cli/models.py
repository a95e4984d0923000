"""``quantkit models``: the networks that quantkit knows by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Union

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from quantkit.cli.console import RenderableType
    from quantkit.models.card import Card


@click.command(
    cls=Verb,
    examples=(
        "quantkit models",
        "quantkit models --long",
        "quantkit models --json | jq '.models[].name'",
    ),
)
@click.option(
    "--long", "as_long", is_flag=True, help="Also say how images are preprocessed and where weights come from."
)
@output_options
def models(terminal: Terminal, as_long: bool) -> None:
    """List the networks that have a model card.

    Each can be given as MODEL by its name or alias. GluonCV's other classifiers can be given by
    their names too; GluonCV's usual preprocessing is then assumed.
    """
    from quantkit.models.card import cards

    known = {card.name: _description(card) for card in cards()}
    terminal.show({"models": list(known.values())}, *(_long(cards(), known) if as_long else [_short(known)]), _legend())


def _legend() -> Text:
    from rich.text import Text

    return Text.assemble(
        "\nWeights that are ",
        ("here", "green"),
        " lie on this machine; the others are fetched at the first use.\nNext: quantkit quantize NAME",
    )


def _description(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "aliases": list(card.aliases),
        "description": card.description,
        "input_shape": list(card.input_shape),
        "classes": card.classes,
        "preprocess": asdict(card.preprocess) if card.preprocess else None,
        "accuracy": asdict(card.accuracy) if card.accuracy else None,
        "sources": _sources(card),
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
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("name", "input", "top-1 %", "weights", "aliases"):
        table.add_column(title, no_wrap=title != "aliases", justify="right" if title == "top-1 %" else "left")
    for card in known.values():
        accuracy = f"{card['accuracy']['top1']:.1f}" if card["accuracy"] else ""
        table.add_row(
            card["name"],
            "x".join(map(str, card["input_shape"])),
            accuracy,
            _whereabouts(card),
            ", ".join(card["aliases"]),
        )
    return table


def _whereabouts(card: dict[str, Any]) -> Union[str, Text]:
    from rich.text import Text

    if any(source["cached"] for source in card["sources"]):
        return Text("here", "green")
    return ", ".join(dict.fromkeys(source["kind"] for source in card["sources"])) or "none"


def _long(cards: Sequence[Card], known: dict[str, dict[str, Any]]) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in cards:
        card = known[each.name]
        table = Table.grid(padding=(0, 2))
        table.add_column(min_width=10, style="cyan")
        if card["aliases"]:
            table.add_row("  aliases", ", ".join(card["aliases"]))
        table.add_row("  input", f"{'x'.join(map(str, card['input_shape']))}, {card['classes']} classes")
        table.add_row("  images", each.preprocess.text if each.preprocess else "preprocessed arrays only")
        if card["accuracy"]:
            top5 = f", top-5 {card['accuracy']['top5']} %" if card["accuracy"]["top5"] else ""
            table.add_row("  accuracy", f"top-1 {card['accuracy']['top1']} %{top5} ({card['accuracy']['origin']})")
        for source in card["sources"]:
            here = " here" if source["cached"] else ""
            location = f"{source['kind']}: {source['location']}"
            table.add_row("  weights", Text.assemble(location, (here, "green")))
        parts += [Text.assemble((card["name"], "bold"), f"  {card['description']}"), table]
    return parts
