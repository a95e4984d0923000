"""Verdicts: sentences made from the figures."""

from __future__ import annotations

from collections.abc import Sequence

from quantkit.benchmark.results.results import Cell, Server, ServerTrial
from quantkit.benchmark.results.statistics import Metric, Ratio
from quantkit.benchmark.variants import VARIANTS
from quantkit.report.study.summary import METRICS, Row, Study, key_of, random_weights
from quantkit.report.study.words import MARK, bounded, counted, factor, listed, number, span

Compared = tuple[Row, Ratio]


def verdicts(study: Study) -> tuple[str, ...]:
    """A sentence for each contestant but the baseline and each metric, INT8 first and then the fastest first."""
    sentences = [sentence for name in by_rank(study) for sentence in _of_contestant(study, name)]
    served = sorted(study.served, key=lambda cell: cell.contestant.variant != "int8")
    sentences += [_served(cell, cell.server) for cell in served if cell.server]
    return tuple(sentences) or ("There is nothing to compare: no contestant but the baseline has a result.",)


def by_rank(study: Study) -> tuple[str, ...]:
    """The names of all contestants but the baseline: INT8 first, quantkit's before others', then the fastest first."""
    variants = {each.name: VARIANTS[each.variant] for each in study.run.contestants}

    def rank(name: str) -> tuple[bool, bool, float]:
        values = [ratio.value for metric in METRICS for _, ratio in compared(study, name, metric)]
        return not variants[name].int8, bool(variants[name].maker), -sum(values) / max(1, len(values))

    return tuple(sorted(study.challengers, key=rank))


def reservations(study: Study) -> tuple[str, ...]:
    """What qualifies the verdicts: an unfinished run, failures, random weights."""
    sentences = []
    run = study.run
    if run.state != "finished":
        sentences.append(f"The run is not complete (its state: {run.state}), so cells may be missing.")
    if study.failed:
        sentences.append(f"{counted(len(study.failed), 'cell')} failed; the reasons are below.")
    if study.left_out:
        verb = "was" if len(study.left_out) == 1 else "were"
        sentences.append(f"{counted(len(study.left_out), 'cell')} {verb} left out; the reasons are below.")
    doubtful = len({key for key, _ in study.warned})
    if doubtful:
        verb = "was" if doubtful == 1 else "were"
        all_cells = counted(len({*study.cells, *map(key_of, study.served)}), "cell")
        sentences.append(f"{doubtful} of {all_cells} {verb} measured with a warning, and marked {MARK}.")
    if random := random_weights(run.networks):
        sentences.append(f"{random}: the speed is real, the accuracy is not.")
    return tuple(sentences)


def compared(study: Study, name: str, metric: Metric) -> list[Compared]:
    """The rows of a contestant that were measured for a metric and have a ratio to the baseline, with the ratio."""
    rows = [row for row in study.rows if row.contestant == name and row.metric == metric]
    return [(row, row.speedup) for row in rows if row.speedup]


def _planned(study: Study, name: str) -> set[tuple[str, int]]:
    """The networks and batch sizes at which a contestant was measured, failed or was left out."""
    return {
        *(key[:2] for key in study.cells if key[2] == name),
        *((cell.network, cell.batch) for cell in study.failed if cell.contestant.name == name),
        *((each.network, each.batch) for each in study.left_out if each.contestant == name),
    }


def _of_contestant(study: Study, name: str) -> list[str]:
    baseline = study.run.baseline
    planned = _planned(study, name)
    by_metric = {metric: pairs for metric in METRICS if (pairs := compared(study, name, metric))}
    sentences = [
        _one(study, *pairs[0], metric) if len(pairs) == 1 else _several(pairs, baseline, metric)
        for metric, pairs in by_metric.items()
    ]
    absent = len(planned) - sum(map(len, by_metric.values()))
    if planned and not sentences:
        sentences = [f"{name} cannot be compared with {baseline}: nowhere do both have a result."]
    elif absent:
        verb = "is" if absent == 1 else "are"
        sentences[-1] += f" {absent} of {counted(len(planned), 'comparison')} {verb} missing."
    return sentences


def _one(study: Study, row: Row, ratio: Ratio, metric: Metric) -> str:
    baseline = study.run.baseline
    times = f"{row.contestant} runs {factor(ratio.value)} times as fast as {baseline}"
    where = f"on {row.network} at batch size {row.batch} ({metric}"
    if not bounded(ratio):
        return f"{times} {where}), which proves nothing: {_why_unbounded(study, row)}."
    interval = f"95 % interval {factor(ratio.low)} to {factor(ratio.high)}"
    if ratio.verdict == "not distinguishable":
        same = f"{row.contestant} is not distinguishable in speed from {baseline}"
        return f"{same} {where}: ratio {factor(ratio.value)}, {interval})."
    return f"{times} {where}, {interval})."


def _why_unbounded(study: Study, row: Row) -> str:
    """The reason why there is no interval."""
    pair = (row.contestant, study.run.baseline)
    single = [name for name in pair if len(study.cells[row.network, row.batch, name].rounds) < 2]
    if not single:
        return "the ratio has no interval"
    return f"{listed(single)} {'was' if len(single) == 1 else 'were'} measured in a single round"


def judgement(trial: ServerTrial) -> str:
    """LoadGen's verdict with the unmet conditions, or its other reasons if it names none."""
    if trial.valid:
        return "valid"
    return f"not valid: {listed(trial.unmet) or '; '.join(trial.why) or 'no reason given'}"


def doubt(server: Server) -> str:
    """What LoadGen has against the run that confirmed a rate; empty if it has nothing."""
    confirmed = server.confirmed
    return "" if confirmed is None or confirmed.valid else f", in a run that LoadGen calls {judgement(confirmed)}"


def _several(pairs: Sequence[Compared], baseline: str, metric: Metric) -> str:
    name = pairs[0][0].contestant
    all_verdicts = [ratio.verdict for _, ratio in pairs]
    doubtful, slower = all_verdicts.count("not distinguishable"), all_verdicts.count("slower")
    values = [ratio.value for _, ratio in pairs]
    reach = span(min(values), max(values))
    where = _where([row for row, _ in pairs])
    if doubtful == len(pairs):
        same = f"{name} is not distinguishable in speed from {baseline} in any of {len(pairs)} comparisons"
        return f"{same} {where} ({metric}, ratios {reach})."
    sentence = f"{name} runs {reach} times as fast as {baseline} {where} ({metric})"
    exceptions = []
    if slower:
        exceptions.append(f"it is slower in {slower} of {len(pairs)} comparisons")
    if doubtful:
        exceptions.append(f"it is not distinguishable in {doubtful} of {len(pairs)} comparisons")
    return f"{sentence}; {listed(exceptions)}." if exceptions else f"{sentence}."


def _where(rows: Sequence[Row]) -> str:
    networks = list(dict.fromkeys(row.network for row in rows))
    batches = sorted({row.batch for row in rows})
    on = f"on {networks[0]}" if len(networks) == 1 else f"on {counted(len(networks), 'network')}"
    if len(batches) == 1:
        return f"{on} at batch size {batches[0]}"
    if len(batches) == 2:
        return f"{on} at batch sizes {batches[0]} and {batches[1]}"
    return f"{on} at batch sizes {batches[0]} to {batches[-1]}"


def _served(cell: Cell, server: Server) -> str:
    what = f"{cell.contestant.name} serves {cell.network} at batch size {cell.batch}"
    bound = f"a p99 within {number(server.bound)} ms"
    if server.rate == 0:
        return f"{what} with {bound} at none of the rates tried."
    return f"{what} with {bound} at up to {number(server.rate)} requests per second{doubt(server)}."
