"""The tables in README.md and on the pages of docs/, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import cluster_efficiency
import cluster_scale
import finetuning
import horovod_cycle
import input_bound
import kvstore
import mixed_precision
import published_tables
import quantization_aware
import reading
import recurrent_accuracy
import resuming
import run_pages
import speed_tables
import task_accuracy
import training_feed
import training_scaling
import training_score
import without_vnni
from accuracy_rows import BEST_FORM
from accuracy_tables import Entry, agreement, best_modes, files_beside_peers, form_of
from command_line import table
from turns import Timing, ratio

from quantkit.benchmark.accuracy.forms import UNFUSED
from quantkit.benchmark.accuracy.rows import DEFAULT_FORM
from quantkit.errors import UserError

Data = Callable[[str], Mapping[str, Any]]
Lines = Iterator[str]

_BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SPEED_BATCH = 8
_LSTM = "lstm-4x1024"
_FEW, _STOCK, _NO_ALGORITHMS = 10, "stock MXNet ", "quantkit mse"

# The ablation's rows: what pages call them, and their form.
_ABLATION = {
    "no algorithm": "preset none",
    "bias correction alone": "bias correction alone",
    "the same, analytic (no images)": "analytic bias correction alone",
    "joint rounding alone": "rounding alone",
    "refitting alone": "refitting alone",
    "channel shift alone": "channel shift alone",
    "`balanced` (all five)": "preset balanced",
    "without refitting": "balanced without refitting",
    "without rounding": "balanced without rounding",
    "without bias correction": "balanced without bias correction",
    "without channel shift": "balanced without channel shift",
    "without mirror images": "balanced without mirror images",
    "`balanced` with equalization": "balanced with equalization",
    "`balanced` with choice of observers": "balanced with choice of observers",
}


def filled(page: str, results: Path, data: Data) -> str:
    """A page with every marked block as the data give it.

    Raises:
        UserError: a block has a name that is not known.
    """
    tables = _tables(results, data)
    if unknown := set(names_in(page)) - set(tables):
        raise UserError(f"a page has the generated block {', '.join(sorted(unknown))}; known are {', '.join(tables)}")
    return _BLOCK.sub(lambda block: block[1] + "\n".join(tables[block[2]]()) + "\n" + block[3], page)


def names_in(page: str) -> list[str]:
    """The names of a page's blocks."""
    return [block[2] for block in _BLOCK.finditer(page)]


def _tables(results: Path, data: Data) -> dict[str, Callable[[], Lines]]:
    return {
        "summary": lambda: _summary(data("accuracy")["rows"]),
        "accuracy": lambda: _accuracy(data("accuracy")["rows"]),
        "peers": lambda: _peers(data("accuracy")["rows"]),
        "files": lambda: _files(data("accuracy")["rows"]),
        "parity": lambda: _parity(data("onnx-parity")["rows"]),
        "ablation": lambda: _ablation(data("ablation")["rows"]),
        "mixed-precision": lambda: _mixed(data("mixed-precision")["rows"]),
        "speed": lambda: speed_tables.speedup_lines(run_pages.study(results / "int8-speedup"), _SPEED_BATCH),
        "stock-ahead": lambda: speed_tables.stock_ahead_lines(run_pages.study(results / "int8-speedup")),
        "lstm-speed": lambda: speed_tables.lstm_lines(run_pages.study(results / "lstm-int8")),
        "lstm-summary": lambda: speed_tables.lstm_summary_lines(run_pages.study(results / "lstm-int8"), _LSTM),
        "runs": lambda: run_pages.overview(results),
        "plain-loops": lambda: speed_tables.plain_loop_lines(results),
        "recurrent": lambda: _recurrent(data("recurrent-accuracy")["rows"]),
        "without-vnni": lambda: without_vnni.lines(data("without-vnni")["rows"]),
        "tasks": lambda: _tasks(data("task-accuracy")["rows"]),
        "recovered-speed": lambda: _recovered_speed(data("recovered-speed")["cells"]),
        "onnx-files": lambda: speed_tables.onnx_file_lines(run_pages.study(results / "onnx-files")),
        "cluster-efficiency": lambda: _lines_of(cluster_efficiency, data("cluster-efficiency")),
        "cluster-scale": lambda: _lines_of(cluster_scale, data("cluster-scale")),
        "reading": lambda: _lines_of(reading, data("reading")),
        "finetuning": lambda: _lines_of(finetuning, data("finetuning")),
        "quantization-aware": lambda: _lines_of(quantization_aware, data("quantization-aware")),
        "training-scaling": lambda: _lines_of(training_scaling, data("training-scaling")),
        "training-feed": lambda: _lines_of(training_feed, data("training-feed")),
        "training-score": lambda: _score(data("training-score")),
        "resuming": lambda: _lines_of(resuming, data("resuming")),
        "kvstore": lambda: _lines_of(kvstore, data("kvstore")),
        "horovod-cycle": lambda: _lines_of(horovod_cycle, data("horovod-cycle")),
        "input-bound": lambda: _lines_of(input_bound, data("input-bound")),
        "published": lambda: published_tables.published_lines(results.parent / "published.toml"),
    }


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    yield from table(columns)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _most(rows: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """The rows of each network that are not calibrated, and those calibrated with the most images."""
    for network, group in groupby(rows, key=lambda row: row["network"]):
        own = list(group)
        most = max(row["calibration_samples"] or 0 for row in own)
        yield network, [row for row in own if row["calibration_samples"] in (None, most)]


def _both(row: Entry | None) -> str:
    return "" if row is None or row["failure"] else f"{row['top1']:.2f}, {row['agreement']:.2f}"


def _summary(rows: Sequence[Entry]) -> Lines:
    """Top-1, and the agreement with FP32 of ``balanced`` and of the others' best modes, the highest in bold."""
    lines = []
    for network, own in _most(rows):
        forms = {row["form"]: row for row in own}
        fp32, int8 = forms[UNFUSED], forms[DEFAULT_FORM]
        peers = {row["peer"]: row for row in best_modes(own)}
        agreements = [row["agreement"] for row in (int8, _best_stock(own), peers["ONNX Runtime"], peers["NNCF"])]
        lines.append([
            network, str(fp32["images"]), f"{fp32['top1']:.2f}", f"{int8['top1']:.2f}",
            *(f"**{each:.2f}**" if each == max(agreements) else f"{each:.2f}" for each in agreements),
        ])  # fmt: skip
    yield from _rows(
        [
            "network",
            "images",
            "top-1, FP32",
            "top-1, INT8",
            *(f"agreement, {each}" for each in ("quantkit", "stock MXNet", "ONNX Runtime", "NNCF")),
        ],
        lines,
    )


def _best_stock(rows: Sequence[Entry]) -> Entry:
    return max((row for row in rows if row["form"].startswith(_STOCK)), key=lambda row: row["agreement"])


def _accuracy(rows: Sequence[Entry]) -> Lines:
    lines = []
    for network, own in _most(rows):
        forms = {row["form"]: row for row in own}
        few = [row for row in rows if (row["network"], row["calibration_samples"]) == (network, _FEW)]
        stock = _best_stock(own)
        fp32 = forms[UNFUSED]
        lines.append([
            network, str(fp32["images"]), f"{fp32['top1']:.2f}",
            _both(next(row for row in few if row["form"] == DEFAULT_FORM)),
            *(_both(forms[form]) for form in (DEFAULT_FORM, BEST_FORM, _NO_ALGORITHMS)),
            f"{_both(stock)} ({stock['form'].removeprefix(_STOCK)})",
        ])  # fmt: skip
    columns = [
        "network", "images", "FP32", "`balanced`, 10 images", "`balanced`", "`best`", "no algorithm",
        "stock, best mode",
    ]  # fmt: skip
    yield from _rows(columns, lines)


def _ahead(agreed: Mapping[str, Any], cosine: Mapping[str, Any]) -> str:
    words = {"ahead": "yes", "behind": "no, behind"}
    both = [words.get(each["verdict"], each["verdict"]) for each in (agreed, cosine)]
    return f"{both[0]}; by cosine {both[1]}"


def _peers(rows: Sequence[Entry]) -> Lines:
    lines = []
    for network, own in _most(rows):
        best = {row["peer"]: row for row in best_modes(own)}
        cells = [network, agreement(form_of(own, next(iter(best.values())), DEFAULT_FORM))]
        for peer in ("ONNX Runtime", "NNCF"):
            row = best[peer]
            cells += [agreement(row), _ahead(row["default_agreement_less_this"], row["default_cosine_less_this"])]
        lines.append(cells)
    yield from _rows(["network", "`balanced`", "ONNX Runtime", "ahead?", "NNCF", "ahead?"], lines)


def _files(rows: Sequence[Entry]) -> Lines:
    lines = []
    for network, own in _most(rows):
        cells = [network]
        for peer in ("ONNX Runtime", "NNCF"):
            row, other = next(
                each
                for each in files_beside_peers(own)
                if each[0]["engine"] == peer and each[0]["form"].startswith(f"{DEFAULT_FORM},")
            )
            verdict = _ahead(row["agreement_less_best_mode"], row["cosine_less_best_mode"])
            cells += [agreement(row), agreement(other), verdict]
        lines.append(cells)
    yield from _rows(["network", "in ONNX Runtime", "its own", "ahead?", "in OpenVINO", "NNCF", "ahead?"], lines)


def _parity(rows: Sequence[Entry]) -> Lines:
    found = {(row["network"], row["engine"]): row["outputs"] for row in rows if row["weights"] != "random"}
    yield from _rows(["network", "ONNX Runtime", "OpenVINO"], [
        [
            network,
            *(_parity_of(found[network, engine]) for engine in ("onnxruntime", "openvino")),
        ]
        for network in dict.fromkeys(network for network, _ in found)
    ])  # fmt: skip


def _parity_of(outputs: Mapping[str, Any]) -> str:
    """The share of samples with the same top-1, which scores of every step do not have, and the cosine."""
    same = "" if outputs["same"] is None else f"{100 * outputs['same'] / outputs['images']:.2f}, "
    return f"{same}{outputs['cosine']:.5f}"


def _ablation(rows: Sequence[Entry]) -> Lines:
    found = {(row["network"], row["form"]): row for row in rows}
    networks = list(dict.fromkeys(row["network"] for row in rows))

    def cell(row: Entry) -> str:
        return f"{row['agreement']:.2f}, {row['cosine']:.5f}, {row['seconds']:.0f} s"

    yield from _rows(["agreement in %, cosine, seconds", *networks], [
        [title, *(cell(found[network, f"quantkit {form}"]) for network in networks)]
        for title, form in _ABLATION.items()
    ])  # fmt: skip


def _mixed(rows: Sequence[Entry]) -> Lines:
    columns = [
        "network", "layers in FP32", "agreement, cosine in INT8", "mixed", "difference in points", "speed-up in INT8",
        "mixed",
    ]  # fmt: skip
    yield from _rows(columns, [
        [
            row["network"], f"{len(row['layers'])} of {row['of']}", mixed_precision.judged(row, "int8"),
            *(
                (
                    mixed_precision.judged(row, "mixed"),
                    f"{mixed_precision.difference(row)}, {mixed_precision.verdict(row)}",
                )
                if row["layers"]
                else ("the same", "0")
            ),
            *(f"{row['speedup'][form]:.2f}x" for form in ("int8", "mixed")),
        ]
        for row in rows
    ])  # fmt: skip


def _recurrent(rows: Sequence[dict[str, Any]]) -> Lines:
    yield from table(recurrent_accuracy.COLUMNS)
    yield from recurrent_accuracy.lines(rows)


def _tasks(rows: Sequence[dict[str, Any]]) -> Lines:
    yield from table(task_accuracy.COLUMNS)
    yield from task_accuracy.lines(rows)


def _lines_of(script: Any, document: Mapping[str, Any]) -> Lines:
    """The table of a script's run."""
    yield from table(script.COLUMNS)
    yield from script.lines(document)


def _score(document: Mapping[str, Any]) -> Lines:
    yield from table(training_score.columns(document))
    yield from training_score.lines(document)


def _recovered_speed(cells: Sequence[Entry]) -> Lines:
    """A row for each network, with its batch sizes side by side."""
    timings = [Timing(**each) for each in cells]
    batches = sorted({timing.batch for timing in timings})
    found = {(each.network, each.batch): ratio(each.ticks, "balanced", "none") for each in timings}
    yield from _rows(
        ["network", *(f"batch size {batch}" for batch in batches)],
        [
            [network, *(found[network, batch] for batch in batches)]
            for network in dict.fromkeys(each.network for each in timings)
        ],
    )
