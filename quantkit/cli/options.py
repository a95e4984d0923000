"""How commands declare their options: types, groups that become one value, and what all commands share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from quantkit.backends.registry import DEPLOYED
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Command = Callable[..., None]

_OPTION = "option"


class Verb(click.Command):
    """A command whose help shows examples before the options."""

    def __init__(self, *args: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write commands into a help text, one per line."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def output_options(command: Command) -> Command:
    """Add --json and --quiet, and call the command with a ``Terminal`` as its first argument."""

    def speaking(context: click.Context, as_json: bool, quiet: bool, **options: Any) -> None:
        work = context.find_object(Work) or Work()
        terminal = Terminal(work, as_json, quiet)
        with warnings.catch_warnings():
            terminal.take_warnings()
            command(terminal, **options)

    wrapped: Command = speaking
    update_wrapper(wrapped, command)
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
    quiet = click.option("--quiet", is_flag=True, help="Print neither progress nor tables; errors still appear.")
    return as_json(quiet(click.pass_context(wrapped)))


def option(*declarations: str, **attributes: Any) -> Any:
    """A field of a group of options, declared as with ``click.option``; the field's name is that of the parameter."""
    # A callback makes one value of several; without any it makes the default.
    default = () if attributes.get("multiple") and "callback" not in attributes else attributes.get("default")
    return field(default=default, metadata={_OPTION: (declarations, attributes)})


def collected(name: str, group: type[DataclassInstance]) -> Callable[[Command], Command]:
    """Add the options of a group and call the command with one value of it.

    Args:
        name: the command's parameter that takes the value.
        group: a frozen dataclass whose fields are made by ``option``; options appear in their order.
    """

    def added(command: Command) -> Command:
        def calling(*arguments: Any, **options: Any) -> None:
            values = {each.name: options.pop(each.name) for each in fields(group)}
            command(*arguments, **{name: group(**values)}, **options)

        wrapped: Command = calling
        update_wrapper(wrapped, command)
        for each in reversed(fields(group)):
            declarations, attributes = each.metadata[_OPTION]
            wrapped = click.option(*declarations, each.name, **attributes)(wrapped)
        return wrapped

    return added


def given(group: DataclassInstance) -> Iterator[str]:
    """The options of a group whose values differ from their defaults, as they are written on the command line."""
    for each in fields(group):
        if getattr(group, each.name) != each.default:
            declarations, _ = each.metadata[_OPTION]
            yield declarations[0]


force_option = click.option("--force", is_flag=True, help="Replace what an earlier run wrote there.")

engine_option = click.option(
    "--engine",
    type=click.Choice([*DEPLOYED, "auto"]),
    help="The engine.  [default: mxnet if it is installed, else another that is]",
)
