"""Refusing options of ``quantkit benchmark`` that would have no effect, instead of ignoring them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields

import click

from quantkit.cli.cluster import OnCluster
from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.errors import UserError

_OF_A_MODEL = {field.name for group in (Loading, Preprocessing) for field in fields(group)}

# All that a suite of accuracy takes.
_OF_ACCURACY = {"networks", "out", "force", "as_json", "quiet", *(field.name for field in fields(OnCluster))}

_ALONE = "a cluster's workers compute tables of accuracy; speed is measured on hosts that do nothing else"


def refuse_idle(context: click.Context, kind: str) -> None:
    """Refuse options without effect.

    Args:
        context: the context of the command.
        kind: what is measured: a suite, a suite of accuracy, a model, a bundle, or a bundle with its reference.

    Raises:
        UserError: names the first of them.
    """
    given = _given(context)
    target = context.params["target"]
    if kind == "suite of accuracy":
        _refuse(given, given.keys() - _OF_ACCURACY - {"target"}, f"{target} measures accuracy, not speed")
        return
    _refuse(given, {field.name for field in fields(OnCluster)} - {"tls"}, _ALONE)
    if kind != "suite":
        for what in ("networks", "published"):
            _refuse(given, {what}, f"--{what} chooses from a suite, {target} is a {kind}")
    if kind in ("suite", "model"):
        _refuse(given, {"reference"}, f"--reference belongs to a bundle, {target} is a {kind}")
    if kind == "bundle":
        _refuse(given, _OF_A_MODEL, "a bundle has its weights, its input shape and its preprocessing")


def _given(context: click.Context) -> dict[str, str]:
    """The options on the command line, by parameter."""
    source = click.core.ParameterSource.COMMANDLINE
    return {
        str(each.name): each.opts[0]
        for each in context.command.params
        if context.get_parameter_source(str(each.name)) is source
    }


def _refuse(given: dict[str, str], idle: Collection[str], why: str) -> None:
    option = next((option for name, option in given.items() if name in idle), None)
    if option is not None:
        raise UserError(f"{why}; leave out {option}")
