"""Suites from options, and parts of suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quantkit.benchmark.build import Build
from quantkit.benchmark.results.results import Contestant, Published
from quantkit.benchmark.suites.suite import Subject, Suite, checked
from quantkit.benchmark.variants import VARIANTS, can_run
from quantkit.errors import UserError


def compose(
    subject: Subject,
    builds: Sequence[Build],
    variants: Sequence[str],
    policies: Sequence[str] = (),
    batches: Sequence[int] = (),
    scenario: str = "throughput",
) -> Suite:
    """A suite for one network: every variant on every build that can run it, under every policy.

    The first contestant is the baseline.

    Args:
        subject: the network.
        builds: in the order of display; native ones can run only fp32.
        variants: names from ``variants.py``; each build gets those that it can run.
        policies: the placements of instances; none: an instance on each node for throughput, else one.
        batches: the batch sizes; none: 1 and 16 for throughput, else 1.
        scenario: throughput, latency or server.

    Raises:
        UserError: there is no such variant, or no build can run any of them.
    """
    throughput = scenario == "throughput"
    policies = policies or (["node"] if throughput else ["latency"])
    batches = batches or ([1, 16] if throughput else [1])
    unknown = [variant for variant in variants if variant not in VARIANTS]
    if unknown:
        raise UserError(f"there is no variant {unknown[0]!r}; choose from {', '.join(VARIANTS)}")
    pairs = [(build, variant) for build in builds for variant in variants if can_run(build, variant)]
    if not pairs:
        possible = "; ".join(
            f"{build.name} runs {', '.join(name for name in VARIANTS if can_run(build, name))}" for build in builds
        )
        raise UserError(
            f"none of the builds {', '.join(each.name for each in builds)} can run {', '.join(variants)}: {possible}; "
            "change --variants, or name other --builds (`quantkit builds list`)"
        )
    contestants = tuple(
        Contestant(_name(build, variant, policy if len(policies) > 1 else ""), build.name, variant, policy)
        for build, variant in pairs
        for policy in policies
    )
    title = f"{subject.name} on {', '.join(dict.fromkeys(build.name for build, _ in pairs))}"
    suite = Suite(subject.name, title, scenario, tuple(batches), contestants[0].name, (subject,), contestants)
    return checked(suite, subject.name)


def _name(build: Build, variant: str, policy: str) -> str:
    shown = VARIANTS[variant].title if build.int8 else ""
    return " ".join(filter(None, (build.name, shown, policy)))


def left_out(suite: Suite, builds: Sequence[str], variants: Sequence[str]) -> tuple[str, ...]:
    """Messages about requested builds and variants that are in no contestant."""
    measured = dict.fromkeys(each.variant for each in suite.contestants)
    idle = dict.fromkeys(name for name in builds if all(each.build != name for each in suite.contestants))
    unused = dict.fromkeys(name for name in variants if name not in measured)
    return (
        *(f"build {name} is left out: it takes part in none of the variants {', '.join(measured)}" for name in idle),
        *(f"variant {name} is left out: none of these builds takes part in it" for name in unused),
    )


def part(
    suite: Suite,
    networks: Sequence[str] = (),
    builds: Sequence[str] = (),
    variants: Sequence[str] = (),
    batches: Sequence[int] = (),
    policies: Sequence[str] = (),
    scenario: str = "",
) -> Suite:
    """A suite reduced to some of its networks, builds and variants, with other batch sizes, policies or scenario.

    Empty arguments change nothing. If the baseline is gone, the first remaining contestant replaces it.

    Raises:
        UserError: the suite has no such network, build or variant, or nothing is left.
    """
    chosen = [each for each in suite.networks if not networks or each.name in networks]
    _check_known("network", networks, [each.name for each in suite.networks], suite)
    _check_known("build", builds, [each.build for each in suite.contestants], suite)
    _check_known("variant", variants, [each.variant for each in suite.contestants], suite)
    left = [
        each
        for each in suite.contestants
        if (not builds or each.build in builds) and (not variants or each.variant in variants)
    ]
    if not left:
        raise UserError(f"suite {suite.name} has no contestant with these builds and variants; give fewer restrictions")
    if policies:
        left = _placed(left, policies)
    if batches:
        chosen = [replace(each, batches=tuple(batches)) for each in chosen]
    if scenario:
        chosen = [replace(each, scenario=scenario) for each in chosen]
    smaller = replace(
        among(suite, left),
        networks=tuple(chosen),
        batches=tuple(batches) or suite.batches,
        largest=() if batches else suite.largest,
        scenario=scenario or suite.scenario,
    )
    names = {each.name for each in chosen}
    return checked(_showing(smaller, [each for each in smaller.published if each.network in names]), suite.name)


def among(suite: Suite, contestants: Sequence[Contestant]) -> Suite:
    """A suite with only these contestants.

    If the baseline is not among them, the first replaces it, and published speed-ups, which refer to the
    suite's own baseline, are dropped. So are contestants that others are against.
    """
    names = [each.name for each in contestants]
    same = suite.baseline in names
    published = [each for each in suite.published if each.contestant in names and (same or each.metric != "speedup")]
    comparable = [replace(each, against=tuple(name for name in each.against if name in names)) for each in contestants]
    left = replace(suite, contestants=tuple(comparable), baseline=suite.baseline if same else names[0])
    return _showing(left, published)


def _showing(suite: Suite, published: Sequence[Published]) -> Suite:
    """A suite with only these of its published figures, and their sources."""
    tables = {each.table for each in published}
    sources = tuple(each for each in suite.sources if each.table in tables)
    return replace(suite, published=tuple(published), sources=sources)


def _placed(contestants: Sequence[Contestant], policies: Sequence[str]) -> list[Contestant]:
    """The contestants under other policies; those that differ only in their policy are merged."""
    kinds = {(each.build, each.variant): each for each in reversed(contestants)}
    several = len(policies) > 1
    return [
        replace(each, policy=policy, name=f"{each.name} {policy}" if several else each.name)
        for each in contestants
        if kinds[each.build, each.variant] is each
        for policy in policies
    ]


def _check_known(what: str, given: Sequence[str], known: Sequence[str], suite: Suite) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UserError(f"suite {suite.name} has no {what} {unknown[0]!r}; it has {', '.join(dict.fromkeys(known))}")
