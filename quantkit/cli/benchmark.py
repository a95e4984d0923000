"""``quantkit benchmark``: throughput and latency across builds and pinned instances."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.benchmark.variants import DEFAULT_BUILDS, DEFAULT_VARIANTS, variants_of
from quantkit.cli.accuracy import measure_table
from quantkit.cli.hosts import Elsewhere, is_whole, measure_on_hosts
from quantkit.cli.idle import refuse_idle
from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.option_types import Batches, Milliseconds, Minutes, listed
from quantkit.cli.options import Verb, collected, option, output_options
from quantkit.cli.targets import network_name
from quantkit.cli.terminal import Terminal
from quantkit.errors import ModelError, UserError
from quantkit.files.bundles import is_bundle

if TYPE_CHECKING:
    from quantkit.benchmark.build import Build
    from quantkit.benchmark.results.results import Results
    from quantkit.benchmark.suites.suite import Suite

_Choice = tuple[list[str], list[str], list[str], tuple[int, ...]]
"""Builds, variants, policies and batch sizes, as far as the options name them."""


@dataclass(frozen=True)
class Contest:
    """What is measured, and who takes part."""

    builds: Optional[str] = option(
        "--builds",
        metavar="LIST",
        help=f"Builds by name; of a SUITE only these.  [default: {','.join(DEFAULT_BUILDS)}]",
    )
    named: tuple[str, ...] = option(
        "--build",
        multiple=True,
        metavar="NAME=PYTHON",
        help="Use this interpreter as build NAME; may be repeated.",
    )
    variants: Optional[str] = option(
        "--variants",
        metavar="LIST",
        help=f"Of fp32, stock, fused and int8 ({' and '.join(DEPLOYED_ONNX)}: fp32, int8), and of what other "
        f"quantizers make: stock-int8 (MXNet's own), stock-int8-1.5 (the same for MXNet 1.5), onnxruntime-ptq, "
        f"onnxruntime-dynamic, nncf.  "
        f"[default: {','.join(DEFAULT_VARIANTS)}; SUITE: its own]",
    )
    networks: Optional[str] = option("--networks", metavar="LIST", help="Of a SUITE only these networks.")
    batches: Optional[tuple[int, ...]] = option(
        "--batch", type=Batches(), help="Batch sizes.  [default: 1,16; SUITE: its own]"
    )
    instances: Optional[str] = option(
        "--instances",
        metavar="N|POLICY[,...]",
        help="N instances, or one on each NUMA node (node), on each core (core), on one node (latency), on all cores "
        "(machine), or not pinned (unpinned).  [default: node; latency scenario: latency]",
    )
    cores: Optional[int] = option(
        "--cores", type=click.IntRange(min=1), metavar="M", help="Cores of each of N instances."
    )
    published: Optional[str] = option(
        "--published",
        metavar="MACHINE",
        help="For a SUITE with published figures of several machines: the machine to show, such as C5.xlarge or K80.  "
        "[default: the one with about as many cores as this one]",
    )
    scenario: Optional[str] = option(
        "--scenario",
        type=click.Choice(("throughput", "latency", "server")),
        help="What to measure.  [default: throughput]",
    )


@dataclass(frozen=True)
class Circumstances:
    """How it is measured."""

    latency_bound: Optional[float] = option(
        "--latency-bound", type=Milliseconds(), help="The bound on p99 in the server scenario, such as 15ms."
    )
    budget: Optional[float] = option(
        "--budget", type=Minutes(), metavar="MINUTES", help="Stop after this many minutes."
    )
    openmp: str = option(
        "--openmp",
        type=click.Choice(("gnu", "intel")),
        default="gnu",
        show_default=True,
        help="MXNet's OpenMP runtime.",
    )
    allocator: str = option(
        "--allocator",
        type=click.Choice(("system", "jemalloc", "tcmalloc")),
        default="system",
        show_default=True,
        help="The memory allocator.",
    )
    data: str = option(
        "--data", metavar="SPEC", default="builtin", show_default=True, help="Samples to run the networks on."
    )
    reference: Optional[str] = option(
        "--reference", metavar="MODEL", help="The FP32 network that a BUNDLE was made from."
    )
    seed: int = option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random order of turns."
    )


@click.command(
    cls=Verb,
    examples=(
        "quantkit benchmark smoke",
        "quantkit benchmark int8-speedup --budget 30 --out results/",
        "quantkit benchmark resnet50 --builds native,onednn,onnxruntime,openvino --batch 1,16",
        "quantkit benchmark resnet50_v1-int8 --reference resnet50 --instances 1,2 --cores 1",
        "quantkit benchmark resnet50_v1-int8 --scenario server --latency-bound 15ms",
        "quantkit benchmark engines --hosts cluster.json --out fleet/",
        "quantkit benchmark accuracy --cluster local:4",
    ),
)
@click.argument("target", metavar="MODEL|BUNDLE|SUITE")
@collected("contest", Contest)
@collected("circumstances", Circumstances)
@collected("elsewhere", Elsewhere)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="[default: NAME-benchmark]")
@click.option("--force", is_flag=True, help="Discard the results of another run in the folder.")
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@output_options
def benchmark(
    terminal: Terminal,
    target: str,
    contest: Contest,
    circumstances: Circumstances,
    elsewhere: Elsewhere,
    out: Optional[Path],
    force: bool,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Measure speed across builds and pinned instances, or accuracy form by form.

    A SUITE is a file, or the name of one that ships: engines, gluoncv-int8, int8-speedup, lstm-int8,
    onnx-files, rnn, scaling, score, settings, smoke. Builds (`quantkit builds list`) are made when first
    needed; `here` is the engine of this environment. All contestants of a network take turns in random
    order; ratios come with 95 % intervals.

    Results are on disk as soon as they are measured. The same command continues where an earlier one was interrupted.
    `quantkit report DIR` turns them into a page. Exit code 1: a cell failed, or nothing was measured.

    A SUITE of accuracy, such as `accuracy`, which ships, gives a table instead: top-1, top-5 and agreement with FP32 of
    every form of its networks, all over the same images, here or with --cluster. Networks that are finished are kept
    when the same command goes on; give --force where images have changed under the same names.

    With --hosts, every host of a cluster measures at the same time, and the table of all adds up what they do together.
    Builds are made on each host when first needed; files that the suite names must be there. A host's results come when
    all of it is measured: what is interrupted is measured anew.
    """
    from quantkit.benchmark.accuracy.suite import find_accuracy_suite
    from quantkit.benchmark.suites.suite import find_suite

    if not target:
        raise UserError("give the name of a network, a bundle or a suite")
    table = None if is_bundle(target) else find_accuracy_suite(target)
    if table is not None:
        refuse_idle(click.get_current_context(), "suite of accuracy")
        if not measure_table(terminal, table, listed(contest.networks), out, force, elsewhere):
            click.get_current_context().exit(1)
        return
    path = None if is_bundle(target) else find_suite(target)
    alone = "bundle" if circumstances.reference is None else "bundle with its reference"
    kind = alone if is_bundle(target) else "model" if path is None else "suite"
    refuse_idle(click.get_current_context(), kind)
    if elsewhere.hosts is not None and path is None:
        raise UserError(f"--hosts measures a SUITE, and {target} is none; give one, or a file that names the network")
    scenario = _scenario(contest.scenario, circumstances.latency_bound)
    from quantkit.benchmark.builds.environments import open_builds
    from quantkit.benchmark.measuring.measurement import Conditions, run_benchmark
    from quantkit.benchmark.suites.compose import left_out
    from quantkit.host.placeholders import command
    from quantkit.models.preprocess_change import PreprocessChange

    interpreters = dict(_named(each) for each in contest.named)
    builds = listed(contest.builds)
    chosen = (builds, listed(contest.variants), _policies(contest.instances, contest.cores), contest.batches or ())
    if path is not None:
        suite = _part(path, chosen, listed(contest.networks), scenario, contest.published)
        _check_used(interpreters, {each.build for each in suite.contestants})
    else:
        _check_target(target)
        names = [*(builds or DEFAULT_BUILDS), *(name for name in interpreters if not builds)]
        _check_used(interpreters, names)
        opened = open_builds({name: interpreters.get(name, name) for name in names}, terminal.tell)
        suite = _composed(target, list(opened.values()), chosen, scenario, circumstances.reference)
    for message in left_out(suite, chosen[0], chosen[1]):
        terminal.warn(message)
    folder = out or Path(f"{suite.name}-benchmark")
    conditions = Conditions(
        builds=interpreters,
        budget=circumstances.budget,
        openmp=circumstances.openmp,
        allocator=circumstances.allocator,
        latency_bound=circumstances.latency_bound,
        loading={
            **asdict(loading),
            "preprocess": PreprocessChange(**asdict(preprocessing)),
            "quiet": terminal.quiet,
        },
        reference=circumstances.reference,
        data=circumstances.data,
        seed=circumstances.seed,
        command=command("quantkit", sys.argv[1:]),
    )
    if elsewhere.hosts is not None:
        if not measure_on_hosts(terminal, elsewhere, suite, folder, conditions, force):
            click.get_current_context().exit(1)
        return
    terminal.work.kept = f"cells that were finished are in {folder}, and the same command goes on from there"
    results = run_benchmark(suite, folder, conditions, terminal.tell, force)
    _show(terminal, results, folder)
    if not results.cells:
        terminal.warn("nothing was measured; give a larger --budget")
    if not is_whole(results):
        click.get_current_context().exit(1)


def _scenario(scenario: Optional[str], bound: Optional[float]) -> Optional[str]:
    """The scenario asked for; a latency bound implies ``server``."""
    if bound is not None and scenario not in (None, "server"):
        raise UserError(f"--latency-bound belongs to --scenario server, not to {scenario}")
    return scenario if bound is None else "server"


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UserError(f"--build {text!r} is not NAME=PYTHON, such as mine=/opt/mxnet/bin/python")
    return name, text


def _check_used(interpreters: Collection[str], builds: Collection[str]) -> None:
    """Make sure that every --build is measured."""
    idle = next((name for name in interpreters if name not in builds), None)
    if idle is not None:
        raise UserError(f"--build {idle} is not among the builds to measure: {', '.join(sorted(builds))}")


def _policies(instances: Optional[str], cores: Optional[int]) -> list[str]:
    """The policies of placement that --instances and --cores ask for."""
    asked = listed(instances)
    if cores is not None and not any(each.isdigit() for each in asked):
        raise UserError("--cores is the number of cores of each of N instances; give --instances N as well")
    return [f"{each}x{cores}" if each.isdigit() and cores else each for each in asked]


def _check_target(target: str) -> None:
    """Make sure that the network exists before builds are made for it."""
    from quantkit.benchmark.accuracy.suite import accuracy_suites
    from quantkit.benchmark.suites.suite import shipped_suites
    from quantkit.models.locate import locate

    if is_bundle(target):
        return
    try:
        locate(target)
    except ModelError as error:
        raise UserError(
            f"{error}; suites that ship: {', '.join(sorted({*shipped_suites(), *accuracy_suites()}))}"
        ) from error


def _part(path: Path, chosen: _Choice, networks: list[str], scenario: Optional[str], published: Optional[str]) -> Suite:
    from quantkit.benchmark.suites.compose import part
    from quantkit.benchmark.suites.suite import read_suite

    builds, variants, policies, batches = chosen
    return part(read_suite(path, published), networks, builds, variants, batches, policies, scenario or "")


def _composed(
    target: str, opened: list[Build], chosen: _Choice, scenario: Optional[str], reference: Optional[str]
) -> Suite:
    from quantkit.benchmark.suites.compose import compose
    from quantkit.benchmark.suites.suite import Subject

    _, variants, policies, batches = chosen
    return compose(
        Subject(network_name(target), model=target),
        opened,
        variants or variants_of(target, reference),
        policies,
        batches,
        scenario or "throughput",
    )


def _show(terminal: Terminal, results: Results, folder: Path) -> None:
    from quantkit.benchmark.results.cell_figures import results_document
    from quantkit.cli.speed import tables

    terminal.show(
        {"results": str(folder), **results_document(results)},
        *tables(results),
        f"\nresults: {folder}    a page of them: quantkit report {shlex.quote(str(folder))} --out report/",
    )
