"""``quantkit benchmark``: throughput and latency across builds and pinned instances."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.cli.idle import refuse_idle
from quantkit.cli.options import Verb, model_options, output_options
from quantkit.cli.targets import is_bundle, network_name
from quantkit.cli.terminal import Terminal
from quantkit.errors import ModelError, UserError

if TYPE_CHECKING:
    from quantkit.benchmark.build import Build
    from quantkit.benchmark.results import Results
    from quantkit.benchmark.suite import Suite

_DEFAULT_BUILDS = "native,here"
_DEFAULT_VARIANTS = "fp32,fused,int8"


def _listed(text: Optional[str]) -> list[str]:
    """The different parts of a list, in its order."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


class Batches(click.ParamType):
    """``1,16,64``: batch sizes."""

    name = "N[,N...]"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> tuple[int, ...]:
        """The numbers."""
        if isinstance(value, tuple):
            return value
        if not all(re.fullmatch(r"0*[1-9]\d{0,8}", part, re.ASCII) for part in _listed(value) or [""]):
            self.fail(f"{value!r} is not a list of batch sizes, such as 1,16,64", param, ctx)
        return tuple(dict.fromkeys(int(part) for part in _listed(value)))


class Minutes(click.ParamType):
    """A finite number of minutes above zero."""

    name = "MINUTES"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The number."""
        try:
            minutes = float(value)
        except ValueError:
            minutes = 0.0
        if not 0 < minutes < float("inf"):
            self.fail(f"{value!r} is not a number of minutes above zero", param, ctx)
        return minutes


class Milliseconds(click.ParamType):
    """``15ms``, ``15`` or ``0.1s``."""

    name = "TIME"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The time in milliseconds."""
        text, factor = str(value).strip(), 1.0
        if text.endswith("ms"):
            text = text[:-2]
        elif text.endswith("s"):
            text, factor = text[:-1], 1000.0
        try:
            milliseconds = float(text) * factor
        except ValueError:
            milliseconds = 0.0
        if not 0 < milliseconds < float("inf"):
            self.fail(f"{value!r} is not a time such as 15ms", param, ctx)
        return milliseconds


@click.command(
    cls=Verb,
    examples=(
        "quantkit benchmark smoke",
        "quantkit benchmark int8-speedup --budget 30 --out results/",
        "quantkit benchmark resnet50 --builds native,onednn,onnxruntime,openvino --batch 1,16",
        "quantkit benchmark resnet50_v1-int8 --reference resnet50 --instances 1,2 --cores 1",
        "quantkit benchmark resnet50_v1-int8 --scenario server --latency-bound 15ms",
        "quantkit benchmark resnet50_v1-int8 --test-io photos/",
    ),
)
@click.argument("target", metavar="MODEL|BUNDLE|SUITE")
@click.option("--builds", metavar="LIST", help=f"Builds by name; of a SUITE only these.  [default: {_DEFAULT_BUILDS}]")
@click.option(
    "--build",
    "named",
    multiple=True,
    metavar="NAME=PYTHON",
    help="Use this interpreter as build NAME; may be repeated.",
)
@click.option(
    "--variants",
    metavar="LIST",
    help=f"Of fp32, stock, fused and int8 ({' and '.join(DEPLOYED_ONNX)}: fp32, int8), and of what other quantizers "
    f"make: onnxruntime-ptq, nncf.  [default: {_DEFAULT_VARIANTS}; SUITE: its own]",
)
@click.option("--networks", metavar="LIST", help="Of a SUITE only these networks.")
@click.option("--batch", "batches", type=Batches(), help="Batch sizes.  [default: 1,16; SUITE: its own]")
@click.option(
    "--instances",
    metavar="N|POLICY[,...]",
    help="N instances, or one on each NUMA node (node), on each core (core), on one node (latency), on all cores "
    "(machine), or not pinned (unpinned).  [default: node; latency scenario: latency]",
)
@click.option("--cores", type=click.IntRange(min=1), metavar="M", help="Cores of each of N instances.")
@click.option(
    "--scenario", type=click.Choice(("throughput", "latency", "server")), help="What counts.  [default: throughput]"
)
@click.option("--latency-bound", type=Milliseconds(), help="The p99 that the server scenario has to keep, as 15ms.")
@click.option("--budget", type=Minutes(), metavar="MINUTES", help="Take no longer.")
@click.option(
    "--openmp", type=click.Choice(("gnu", "intel")), default="gnu", show_default=True, help="MXNet's OpenMP runtime."
)
@click.option(
    "--allocator",
    type=click.Choice(("system", "jemalloc", "tcmalloc")),
    default="system",
    show_default=True,
    help="The memory allocator.",
)
@click.option("--data", metavar="SPEC", default="builtin", show_default=True, help="Images to run the networks on.")
@click.option("--reference", metavar="MODEL", help="The FP32 network that a BUNDLE was made from.")
@click.option(
    "--test-io",
    metavar="SPEC",
    help="Measure instead whether images can be decoded as fast as the INT8 network reads them.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="[default: NAME-benchmark]")
@click.option("--force", is_flag=True, help="Discard the results of another run in the folder.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the order of turns.")
@model_options
@output_options
def benchmark(
    terminal: Terminal,
    target: str,
    builds: Optional[str],
    named: tuple[str, ...],
    variants: Optional[str],
    networks: Optional[str],
    batches: Optional[tuple[int, ...]],
    instances: Optional[str],
    cores: Optional[int],
    scenario: Optional[str],
    latency_bound: Optional[float],
    budget: Optional[float],
    openmp: str,
    allocator: str,
    data: str,
    reference: Optional[str],
    test_io: Optional[str],
    out: Optional[Path],
    force: bool,
    seed: int,
    weights: str,
    input_shape: Optional[tuple[int, ...]],
) -> None:
    """Measure throughput and latency across builds and pinned instances.

    A SUITE is a file, or the name of one that ships: engines, int8-speedup, rnn, score, scaling,
    smoke. Builds (`quantkit builds list`) are made when first needed; `here` is the engine of this environment.
    All contestants of a network take turns in random order; ratios come with 95 % intervals.

    Results are on disk as soon as they are measured. The same command goes on where an earlier one
    was interrupted. `quantkit report DIR` turns them into a page. Ends with 1 where a cell failed,
    or where nothing was measured.
    """
    from quantkit.benchmark.suite import find_suite

    if not target:
        raise UserError("give the name of a network, a bundle or a suite")
    path = None if is_bundle(target) else find_suite(target)
    alone = "bundle" if reference is None else "bundle with its reference"
    kind = alone if is_bundle(target) else "model" if path is None else "suite"
    refuse_idle(click.get_current_context(), kind)
    if test_io is not None:
        from quantkit.cli.feed import run_test_io

        run_test_io(terminal, target, test_io, (batches or (1,))[0], weights, input_shape)
        return
    scenario = _scenario(scenario, latency_bound)
    from quantkit.benchmark.compose import left_out
    from quantkit.benchmark.environments import open_build
    from quantkit.host.placeholders import command
    from quantkit.measurement import Conditions, run_benchmark

    interpreters = dict(_named(each) for each in named)
    chosen = (_listed(builds), _listed(variants), _policies(instances, cores), batches or ())
    if path is not None:
        suite = _part(path, chosen, _listed(networks), scenario)
        _check_used(interpreters, {each.build for each in suite.contestants})
    else:
        _check_target(target)
        names = [*(_listed(builds) or _listed(_DEFAULT_BUILDS)), *(name for name in interpreters if not builds)]
        _check_used(interpreters, names)
        opened = [open_build(interpreters.get(name, name), terminal.tell) for name in names]
        suite = _composed(target, opened, chosen, scenario, reference)
    for message in left_out(suite, chosen[0], chosen[1]):
        terminal.warn(message)
    folder = out or Path(f"{suite.name}-benchmark")
    conditions = Conditions(
        builds=interpreters,
        budget=budget,
        openmp=openmp,
        allocator=allocator,
        latency_bound=latency_bound,
        loading={"weights": weights, "input_shape": input_shape, "quiet": terminal.quiet},
        reference=reference,
        data=data,
        seed=seed,
        command=command("quantkit", sys.argv[1:]),
    )
    terminal.work.kept = f"cells that were finished are in {folder}, and the same command goes on from there"
    results = run_benchmark(suite, folder, conditions, terminal.tell, force)
    _show(terminal, results, folder)
    if not results.cells:
        terminal.warn("nothing was measured; give a larger --budget")
    if not results.cells or any(cell.failure for cell in results.cells):
        click.get_current_context().exit(1)


def _scenario(scenario: Optional[str], bound: Optional[float]) -> Optional[str]:
    """The scenario asked for; a latency bound asks for server."""
    if bound is not None and scenario not in (None, "server"):
        raise UserError(f"--latency-bound belongs to --scenario server, not to {scenario}")
    return scenario if bound is None else "server"


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UserError(f"--build {text!r} is not NAME=PYTHON, such as mine=/opt/mxnet/bin/python")
    return name, text


def _check_used(interpreters: Collection[str], builds: Collection[str]) -> None:
    """Make sure that no --build was given in vain."""
    idle = next((name for name in interpreters if name not in builds), None)
    if idle is not None:
        raise UserError(f"--build {idle} is not among the builds to measure: {', '.join(sorted(builds))}")


def _policies(instances: Optional[str], cores: Optional[int]) -> list[str]:
    """What --instances and --cores ask for, in the words of placement."""
    asked = _listed(instances)
    if cores is not None and not any(each.isdigit() for each in asked):
        raise UserError("--cores is the number of cores of each of N instances; give --instances N as well")
    return [f"{each}x{cores}" if each.isdigit() and cores else each for each in asked]


def _check_target(target: str) -> None:
    """Make sure that the network exists before builds are made for it."""
    from quantkit.benchmark.suite import shipped_suites
    from quantkit.models.load import locate

    if is_bundle(target):
        return
    try:
        locate(target)
    except ModelError as error:
        raise UserError(f"{error}; suites that ship: {', '.join(shipped_suites())}") from error


def _part(path: Path, chosen: tuple[Any, ...], networks: list[str], scenario: Optional[str]) -> Suite:
    from quantkit.benchmark.compose import part
    from quantkit.benchmark.suite import read_suite

    builds, variants, policies, batches = chosen
    return part(read_suite(path), networks, builds, variants, batches, policies, scenario or "")


def _composed(
    target: str, opened: list[Build], chosen: tuple[Any, ...], scenario: Optional[str], reference: Optional[str]
) -> Suite:
    from quantkit.benchmark.compose import compose
    from quantkit.benchmark.suite import Subject

    _, variants, policies, batches = chosen
    scenario = scenario or "throughput"
    # A bundle by itself has its own form only.
    possible = ["int8"] if is_bundle(target) and reference is None else _listed(_DEFAULT_VARIANTS)
    return compose(
        Subject(network_name(target), model=target),
        opened,
        variants or possible,
        policies or (["node"] if scenario == "throughput" else ["latency"]),
        batches or ((1, 16) if scenario == "throughput" else (1,)),
        scenario,
    )


def _show(terminal: Terminal, results: Results, folder: Path) -> None:
    from quantkit.cli.speed import figures, served, tables

    run = results.run
    failed = [
        {"network": c.network, "batch": c.batch, "contestant": c.contestant.name, **asdict(c.failure)}
        for c in results.cells
        if c.failure
    ]
    rows = figures(results)
    terminal.show(
        {
            "suite": run.name, "results": str(folder), "figures": rows, "served": served(results), "failed": failed,
            "left_out": [asdict(each) for each in run.left_out], "minutes": run.minutes,
        },
        *tables(results),
        f"\nresults: {folder}    a page of them: quantkit report {shlex.quote(str(folder))} --out report/",
    )  # fmt: skip
