"""The reference of the command line as Markdown, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from quantkit.cli.main import cli

Lines = Iterator[str]

_INTRODUCTION = """\
# Command line

This page is generated from the commands; `quantkit VERB --help` prints the same.
"""


def page() -> str:
    """The whole page: a section a verb, with its usage, examples, arguments and options."""
    context = click.Context(cli, info_name="quantkit")
    return "\n".join([_INTRODUCTION, *_overview(context), *_options(cli, context), *_sections(cli, context, 2)]) + "\n"


def _overview(context: click.Context) -> Lines:
    yield from _prose(cli.help)
    yield from ("| verb | |", "|---|---|")
    for name in cli.list_commands(context):
        yield f"| [`{name}`](#quantkit-{name}) | {_command(cli, context, name).get_short_help_str(200)} |"
    yield ""


def _sections(group: click.Group, context: click.Context, level: int) -> Lines:
    for name in group.list_commands(context):
        command = _command(group, context, name)
        inner = click.Context(command, parent=context, info_name=name)
        path = inner.command_path
        yield from (f"{'#' * level} {path} {{#{path.replace(' ', '-')}}}", "")
        pieces = " ".join(command.collect_usage_pieces(inner))
        yield from ("```text", f"{path} {pieces}", "```", "")
        yield from _prose(command.help)
        yield from _examples(getattr(command, "examples", ()))
        yield from _options(command, inner)
        if isinstance(command, click.Group):
            yield from _sections(command, inner, level + 1)


def _command(group: click.Group, context: click.Context, name: str) -> click.Command:
    command = group.get_command(context, name)
    if command is None:
        raise LookupError(f"{context.command_path} lists {name}, but has no such command")
    return command


def _prose(text: str | None) -> Lines:
    r"""A help text's paragraphs; ``\b`` before one keeps its lines as they are."""
    for paragraph in re.split(r"\n\s*\n", (text or "").strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines and lines[0] == "\b":
            yield from ("```text", *lines[1:], "```")
        else:
            yield _escaped(" ".join(lines))
        yield ""


def _examples(examples: Sequence[str]) -> Lines:
    if examples:
        yield from ("```text", *examples, "```", "")


def _options(command: click.Command, context: click.Context) -> Lines:
    shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if not shown:
        return
    yield from ("| option | |", "|---|---|")
    for option in shown:
        record = option.get_help_record(context)
        if record is not None:
            names, text = record
            yield f"| `{names}` | {_escaped(' '.join(text.split()))} |"
    yield ""


def _escaped(text: Any) -> str:
    """Text in which nothing outside backquotes is Markdown."""
    pieces = re.split(r"(`[^`]*`)", str(text))
    return "".join(
        piece if piece.startswith("`") else re.sub(r"[\\*_<>\[\]|]", lambda found: f"&#{ord(found[0])};", piece)
        for piece in pieces
    )
