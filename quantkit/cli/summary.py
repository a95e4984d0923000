"""The short table at the end of ``quantize`` and ``fuse``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from quantkit.backends.registry import DEPLOYED_ONNX, ONNXRUNTIME
from quantkit.mixed_precision.busy import BUSY
from quantkit.units import counted, megabytes

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.bundle.summary import Summary
    from quantkit.cli.console import RenderableType
    from quantkit.cli.option_groups import Loading
    from quantkit.data.sample_noun import SampleNoun
    from quantkit.evaluation.agreement import Agreement


def quantize_tables(
    result: Summary,
    agreement: Optional[Agreement],
    model: str,
    loading: Loading,
    fit: Optional[str],
    noun: SampleNoun,
) -> list[RenderableType]:
    """Print ``summary.quantize_summary`` in words, and suggest the next commands.

    Args:
        result: the summary.
        agreement: the agreement with FP32; None if it was not measured.
        model: the network as given on the command line.
        loading: how it was loaded, as given on the command line.
        fit: what was given as --fit.
        noun: what a sample of its input is called.
    """
    from rich.text import Text

    size, kernels = result["size"], result["kernels"]
    scores = result["step_scores" if "step_scores" in result else "class_scores"]
    hint = "" if scores["settled"] else "; give --classes if the first is a row of them"
    calibration, onnx = result["calibration"], result["onnx"]
    rows: list[tuple[str, str]] = [
        ("operators", f"{result['operators']['original']}, fused to {result['operators']['fused']}"),
        ("INT8", _counted(result["int8"].items()) or "none"),
    ]
    rows += [
        ("FP32" if index == 0 else "", f"{entry['count']} {entry['operator']}: {entry['reason']}")
        for index, entry in enumerate(result["fp32"])
    ]
    rows += [
        ("kernels", _kernels_text(kernels)),
        ("parameters", _sizes(size["fp32"], size["int8"], size["in_fp32"])),
        *([("ONNX", f"{onnx['file']}, {megabytes(onnx['size'])}")] if onnx else []),
        ("calibrated", _calibration_text(calibration, noun)),
        ("adjusted", _algorithms_text(result, noun)),
        *([] if agreement is None else agreement_rows("vs. FP32", agreement, _compared_on(result, agreement, noun))),
        *([] if scores["yes"] or result["task"] else [("outputs", f"no class scores: {scores['why']}{hint}")]),
        *_latency_rows(result),
        *([("goal", _goal_text(result["goal"]))] if result.get("goal") else []),
        ("weights", weights_text(result["weights"])),
    ]
    bundle = shlex.quote(result["bundle"])
    fp32 = f"--reference {shlex.quote(model)}"
    if result["weights"]["kind"] == "file" and loading.weights != "auto":
        fp32 += f" --weights {shlex.quote(loading.weights)}"
    next_steps = (
        f"  quantkit evaluate {bundle} --data {noun.upper()}S {fp32}{_form(loading, fit)}\n"
        f"  quantkit analyze {bundle} --data {noun.upper()}S {fp32}{_layout(loading)}\n"
        f"  quantkit explain {bundle}"
    )
    if onnx:
        next_steps += f"\n  quantkit verify {bundle}" + "".join(f" --engine {name}" for name in DEPLOYED_ONNX)
    if result["weights"]["kind"] != "random":
        engine = f", engine={ONNXRUNTIME.name!r}" if onnx else ""
        next_steps += f"\n  python: quantkit.load({result['bundle']!r}{engine}).predict({noun}s)"
    title = Text(f"\n{result['model']} in {'INT8' if result['int8'] else 'FP32'}: {result['bundle']}", "bold")
    return [title, grid_of(rows), f"\nNext:\n{next_steps}"]


def _form(loading: Loading, fit: Optional[str]) -> str:
    """The options that say what the network reads, which a checkpoint does not say by itself."""
    given = loading.input_shape
    several = given if isinstance(given, dict) else {} if given is None else {"": given}
    shape = "".join(
        f" --input-shape {shlex.quote((f'{name}=' if name else '') + ','.join(map(str, each)))}"
        for name, each in several.items()
    )
    fitted = "" if fit is None else f" --fit {fit}"
    return shape + fitted + _layout(loading) + ("" if loading.states == "zero" else f" --states {loading.states}")


def _layout(loading: Loading) -> str:
    return "" if loading.layout is None else f" --layout {loading.layout}"


def _latency_rows(result: Summary) -> list[tuple[str, str]]:
    proof, speed = result["never_slower"], result["speed"]
    if proof is not None:
        rows = latency_rows(result["latency_ms"], proof["batch"])
        return [*rows, ("speed", "\n".join(proof_texts(proof)))]
    rows = latency_rows(result["latency_ms"])
    return rows if speed is None or speed["verdict"] == "faster" else [*rows, ("speed", _not_faster(speed))]


def proof_texts(proof: Mapping[str, Any]) -> list[str]:
    """What was proven of the speed of a network that must not be slower, in words."""
    form, returned = _fp32_form(proof["reference"]), len(proof["returned"])
    ratio = f"{ratio_text(proof['ratio'])} as fast as {form}"
    texts = [f"INT8 is {ratio}" if proof["faster"] else f"every layer is in FP32: INT8 was {ratio}, not faster"]
    if proof["faster"] and returned:
        texts[0] += f"; {ratio_text(proof['all_int8'])} with every layer in INT8"
        texts.append(f"{returned} of {proof['layers']} layers returned to FP32, where they are faster")
    if not proof["faster"] and proof["fused"]["high"] < 1:
        texts.append(f"FP32 FUSED IS SLOWER: {ratio_text(proof['fused'])} as fast as FP32 unfused; use that instead")
    where = f"timed on {proof['cpu']} with {counted_threads(proof['threads'])}, batch {proof['batch']}"
    where += f", in {proof['engine']} {proof['version']} and no other engine"
    if not proof["complete"]:
        where += "; the search was ended by its budget (--search-minutes)"
    texts.append(where)
    if (proof["busy"] or 0.0) > BUSY:
        texts.append(f"UNRELIABLE: other processes used {proof['busy']:.1f} cores meanwhile")
    return texts


def _goal_text(goal: Mapping[str, Any]) -> str:
    """Whether a goal is met where there was no search, since every layer is in FP32."""
    if goal["met"]:
        return "met: in FP32 nothing is lost"
    return f"NOT MET: in FP32 it is not {goal['min_speedup']:g}x as fast as unfused"


def _fp32_form(reference: str) -> str:
    """The form of FP32 that INT8 is compared with, in words."""
    return "FP32 fused" if reference == "fp32_fused" else "FP32 unfused"


def ratio_text(ratio: Mapping[str, Any]) -> str:
    """A ratio of speeds with its 95 % interval."""
    return f"{ratio['median']:.2f}x [{ratio['low']:.2f}, {ratio['high']:.2f}]"


def counted_threads(threads: int) -> str:
    """A number of threads, in words."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def _not_faster(speed: Mapping[str, Any]) -> str:
    form = _fp32_form(speed["reference"])
    verdict = "INT8 IS SLOWER" if speed["verdict"] == "slower" else f"INT8 cannot be told from {form}"
    said = f"{verdict}: {ratio_text(speed)} as fast as {form}"
    return f"{said}\n--never-slower returns what is faster in FP32, and every layer where that does not suffice"


def latency_rows(milliseconds: Optional[Mapping[str, float]], batch: int = 1) -> list[tuple[str, str]]:
    """Latencies and their ratios."""
    if not milliseconds:
        return []
    names = {"fp32": "FP32", "fp32_fused": "fused", "int8": "INT8", "mixed": "mixed"}
    times = ", ".join(f"{names[name]} {value:.2f} ms" for name, value in milliseconds.items())
    best = list(milliseconds)[-1]
    ratio = milliseconds["fp32"] / milliseconds[best]
    text = f"{times} (median, batch {batch})\n{names[best]} is {ratio:.1f}x as fast as FP32"
    if best != "fp32_fused":
        text += f", {milliseconds['fp32_fused'] / milliseconds[best]:.1f}x as fast as FP32 fused"
    return [("latency", text)]


def agreement_rows(label: str, agreement: Agreement, compared_on: str = "") -> list[tuple[str, str]]:
    """How far two networks agree, and on what: one row, or one row for each output."""
    if len(agreement.texts) == 1:
        return [(label, f"{agreement.texts[0]} ({compared_on})" if compared_on else agreement.texts[0])]
    texts = [*agreement.texts, *([compared_on] if compared_on else [])]
    return [(label if index == 0 else "", text) for index, text in enumerate(texts)]


def weights_text(weights: Mapping[str, str]) -> str:
    """Where weights came from."""
    kind, location = weights["kind"], weights["location"]
    if kind == "random":
        return "RANDOM: predictions mean nothing"
    return f"{kind} ({location})" if location else kind


def grid_of(rows: list[tuple[str, str]]) -> Table:
    """Labels and texts side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    for label, text in rows:
        table.add_row(f"  {label}", Text(text, "bold red" if text.startswith("RANDOM") else ""))
    return table


def _calibration_text(calibration: Mapping[str, Any], noun: SampleNoun) -> str:
    if calibration["origin"] == "shipped":
        made = f"table shipped for these weights, from {calibration['samples']} {calibration['data']}"
    else:
        made = f"{counted(calibration['samples'], noun)} of {calibration['data']}"
    return f"{calibration['method']}, {made}"


def _compared_on(result: Summary, agreement: Agreement, noun: SampleNoun) -> str:
    return f"on {counted(agreement.images, noun)} {_looked_at(result)}"


def _looked_at(result: Summary) -> str:
    """The samples that algorithms and the comparison with FP32 used, in words."""
    measured = result["calibration"]["origin"] == "measured"
    return "that it was calibrated with" if measured else f"of {result['data']}"


def _algorithms_text(result: Summary, noun: SampleNoun) -> str:
    algorithms = result["algorithms"]
    names = {
        "channel_shift": "channels shifted",
        "refit": "weights refitted",
        "rounding": "rounded jointly",
        "bias": "biases",
    }
    done = [text for name, text in names.items() if algorithms[name]]
    if done and not any(name.startswith(("Convolution", "FullyConnected", "LSTM")) for name in result["int8"]):
        return "nothing (no convolution, dense or LSTM layer runs in INT8)"
    if done:
        count = algorithms["num_samples"]
        mirrored = ", mirrored ones included" if count > result["calibration"]["samples"] else ""
        of = "" if result["calibration"]["origin"] == "measured" else f" {_looked_at(result)}"
        return f"{', '.join(done)}, with {counted(count, noun)}{of}{mirrored}"
    return "nothing (random weights)" if result["weights"]["kind"] == "random" else "nothing (preset none)"


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts)


def _sizes(fp32: int, int8: int, in_fp32: Sequence[str]) -> str:
    text = f"{megabytes(fp32)} in FP32, {megabytes(int8)} in the bundle"
    if fp32 > 1.1 * int8:
        return f"{text}: {fp32 / int8:.1f}x smaller"
    return f"{text} (MXNet quantizes the weights of {' and '.join(in_fp32)} when it loads them)" if in_fp32 else text


def _kernels_text(kernels: Mapping[str, Any]) -> str:
    isa = f", on {', '.join(kernels['isa'])}" if kernels["isa"] else ""
    return f"{kernels['int8']} of {kernels['of']} convolutions, dense and recurrent layers in INT8{isa}"
