"""``quantkit builds``: the engines that a benchmark compares, each in a separate environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.options import Verb, output_options, write_examples
from quantkit.cli.terminal import Terminal
from quantkit.units import megabytes

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.benchmark.build import Build
    from quantkit.benchmark.builds.environments import BuildState

_EXAMPLES = (
    "quantkit builds list",
    "quantkit builds add native onednn onnxruntime openvino",
    "quantkit builds add mine=/path/to/python",
    "quantkit builds check",
    "quantkit builds remove native",
)
_STATES = {"ready": ("ready", "green"), "not made": ("not made", ""), "broken": ("BROKEN", "bold red")}


class _Builds(click.Group):
    """A group whose help shows examples and lists the verbs in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, _EXAMPLES)


@click.group(cls=_Builds)
def builds() -> None:
    """Make and check the engines that benchmarks compare.

    A build is the wheel of an engine with NumPy in a virtual environment under QUANTKIT_HOME/builds.
    `quantkit benchmark` makes the builds that it needs by itself. Those of MXNet differ in their version, and in
    whether they contain MKL-DNN. `peers` holds the quantizers of ONNX Runtime and of OpenVINO (NNCF).
    """


@builds.command("list", cls=Verb, examples=("quantkit builds list", "quantkit builds list --json"))
@output_options
def list_(terminal: Terminal) -> None:
    """List all builds: what can be made, your own, and here.

    `here` is the environment that quantkit runs in. Sizes are those of environments that quantkit made.
    """
    from quantkit.benchmark.builds.environments import list_builds

    _show(terminal, list_builds(terminal.stage), _LEGEND)


_LEGEND = "\nNext: quantkit builds add NAME, or quantkit builds add NAME=/path/to/python"


@builds.command(
    cls=Verb,
    examples=(
        "quantkit builds add native onednn",
        "quantkit builds add native --python python3.11",
        "quantkit builds add mine=/path/to/python",
    ),
)
@click.argument("names", metavar="NAME|NAME=PYTHON...", nargs=-1, required=True)
@click.option("--python", metavar="PYTHON", help="Make the environment with this interpreter, of Python 3.11.")
@output_options
def add(terminal: Terminal, names: tuple[str, ...], python: Optional[str]) -> None:
    """Make builds, or register your own.

    NAME is one that `quantkit builds list` shows: its wheel and the packages that it needs are installed by
    pip, with pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS and the like), and tried. NAME=PYTHON registers
    an interpreter that has MXNet or another engine of that list and NumPy already, Python 3.7 or later; a NAME
    from the list must be of its engine and version. What is made is kept; what is broken is made again.
    """
    from quantkit.benchmark.builds.build_folder import folder_of
    from quantkit.benchmark.builds.environments import add_build, state_of

    added: list[BuildState] = []
    for spec in names:
        name = spec.partition("=")[0]
        with terminal.work.writing(folder_of(name)):
            add_build(spec, terminal.stage, python)
        added.append(state_of(name, terminal.stage))
    _show(terminal, added)


@builds.command(cls=Verb, examples=("quantkit builds check", "quantkit builds check native onednn"))
@click.argument("names", metavar="[NAME...]", nargs=-1)
@output_options
def check(terminal: Terminal, names: tuple[str, ...]) -> None:
    """Try builds: version, features, a convolution.

    Without names, all that exist. Ends with 1 where one is broken or not made.
    """
    from quantkit.benchmark.builds.environments import check_build, known_builds

    checked = [check_build(name, terminal.stage) for name in names or known_builds()]
    _show(terminal, [each for each in checked if names or each.state != "not made"])
    if any(each.state == "broken" or (names and each.state == "not made") for each in checked):
        click.get_current_context().exit(1)


@builds.command(cls=Verb, examples=("quantkit builds remove native", "quantkit builds remove mine"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@output_options
def remove(terminal: Terminal, names: tuple[str, ...]) -> None:
    """Remove environments, forget interpreters.

    What quantkit made is deleted, unless a running process uses it. An interpreter of your own is forgotten; it
    stays as it is.
    """
    from quantkit.benchmark.builds.environments import remove_build

    for name in names:
        remove_build(name, terminal.stage)
    terminal.show({"removed": list(names)}, f"removed {', '.join(names)}")


def _show(terminal: Terminal, states: Sequence[BuildState], *more: str) -> None:
    from rich.text import Text

    problems = [Text.assemble((f"\n{each.name}", "bold"), f": {each.problem}") for each in states if each.problem]
    terminal.show({"builds": [_description(each) for each in states]}, _table(states), *problems, *more)


def _description(state: BuildState) -> dict[str, Any]:
    build = state.build
    return {
        "name": state.name,
        "role": state.role,
        "state": state.state,
        "problem": state.problem,
        "version": build and build.version,
        "engine": build and _engine(build),
        "int8": build and build.int8,
        "python": build and build.python,
        "python_version": build and build.python_version,
        "numpy": build and build.numpy,
        "features": build and list(build.features),
        "size": state.size,
    }


def _engine(build: Build) -> str:
    from quantkit.backends.registry import DEPLOYED, MXNET

    kind = "MKL-DNN" if build.mkldnn else "native"
    return kind if build.engine == MXNET.name else DEPLOYED[build.engine].title


def _table(states: Sequence[BuildState]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("name", "state", "engine", "version", "INT8", "size", "role"):
        table.add_column(title, no_wrap=title != "role", justify="right" if title == "size" else "left")
    for state in states:
        build = state.build
        facts = (_engine(build), build.version, "yes" if build.int8 else "no") if build else ("", "", "")
        size = "" if state.size is None else megabytes(state.size)
        table.add_row(state.name, Text(*_STATES[state.state]), *facts, size, state.role)
    return table
