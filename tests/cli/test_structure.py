"""What a command is: few parameters, and nothing of its own that a library could do."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

import quantkit.cli
from quantkit.cli.main import cli
from quantkit.cli.option_types import PREDICTION, TASK
from quantkit.models.families import Task
from quantkit.tasks.task import TaskName

MOST_PARAMETERS = 12

MODULES = sorted(Path(quantkit.cli.__file__).parent.glob("*.py"))


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command) if isinstance(command, click.Group) else [command]


def parameters(command: click.Command) -> list[str]:
    """Those of the function that was written, under all decorators."""
    assert command.callback is not None
    return list(inspect.signature(command.callback).parameters)


def private(tree: ast.AST) -> list[str]:
    """What a module takes from others of the package that is no public name there."""
    imported = [
        f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("quantkit")
        for each in node.names
    ]
    return [
        name for name in imported if any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
    ]


def test_the_parameters_are_those_of_the_function_itself() -> None:
    (feed,) = (command for command in commands(cli) if command.name == "feed")
    assert parameters(feed) == [
        "terminal",
        "network",
        "data",
        "batch",
        "seconds",
        "training",
        "varying",
        "loading",
        "preprocessing",
    ]


@pytest.mark.parametrize("command", commands(cli), ids=lambda command: str(command.name))
def test_no_command_has_too_many_parameters(command: click.Command) -> None:
    assert len(parameters(command)) <= MOST_PARAMETERS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_commands_use_public_names_only(path: Path) -> None:
    assert private(ast.parse(path.read_text())) == []


def test_the_check_of_names_notices() -> None:
    source = "from quantkit.bundle.write import _chosen\nfrom os import _exit\ndef f():\n    from quantkit._x import y"
    assert private(ast.parse(source)) == ["quantkit.bundle.write._chosen", "quantkit._x.y"]


def calculating(tree: ast.AST) -> list[str]:
    """The libraries for arithmetic that a module imports when it runs, not for its types alone."""
    imported: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            imported += [each.name.split(".")[0] for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported.append(str(node.module).split(".")[0])
        else:
            imported += calculating(node)
    return [name for name in imported if name in ("numpy", "scipy", "statistics")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_commands_calculate_nothing(path: Path) -> None:
    assert calculating(ast.parse(path.read_text())) == []


def test_the_check_of_arithmetic_notices() -> None:
    source = "if TYPE_CHECKING:\n    import scipy\ndef f():\n    import numpy as np\n    from statistics import median"
    assert calculating(ast.parse(source)) == ["numpy", "statistics"]


def test_every_task_can_be_asked_for() -> None:
    assert [*TASK.choices] == [*get_args(Task)]
    assert [*PREDICTION.choices] == ["classification", *get_args(TaskName)]
