"""The numeric check: a fused network must compute what the unfused one does, on real input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.errors import FusionError, ModelError
from quantkit.fusion.compared import compared, sorted_within, with_constants
from quantkit.ir.graph import Graph
from quantkit.models.vocabulary import tokens_in

# A rewrite may reorder FP32 sums: rounding noise, a few units of 2^-23 in each layer.
_TOLERANCE = 1e-5
_INPUT_NOISE = 2.0**-20
_NOISE_FACTOR = 8.0
_UNSTABLE = 0.1


@dataclass(frozen=True)
class FusionCheck:
    """The result of the comparison, relative to the largest value of each output.

    ``difference`` is the largest deviation of the fused network; ``allowed`` is what rounding explains.
    """

    samples: int
    difference: float
    allowed: float
    changed_predictions: int


def check_fusion(
    original: Graph, fused: Graph, batches: Sequence[np.ndarray], batch_size: int, names: Sequence[str] = ()
) -> FusionCheck:
    """Run both networks and compare every output.

    Args:
        original: the unfused network.
        fused: the fused one in the form that the engine runs.
        batches: real input, float32; at least one.
        batch_size: of the largest batch.
        names: what error messages call the samples; empty if they have no names.

    The effect of rounding depends on the network: one that amplifies small differences (deep
    ones with random weights do) deviates more. So the unfused network runs once more with its input
    changed by 2^-20 of its values (of token ids, the embeddings' tables), and eight times the effect of that is
    allowed, or 1e-5 if that is more. What is sorted before further layers is sorted once, and all read the same.

    Raises:
        FusionError: an output deviates by more (the message names the first wrong tensor), or the
            network is too unstable to check.
        ModelError: the output of the unfused network holds NaN or infinite values.
    """
    # An output has another name in the fused network if its operator did nothing and was left out.
    original, fused = compared(original, fused)
    noise, changed, samples = 0.0, 0, 0
    differences: list[float] = []
    for batch, (expected, noisy, computed) in zip(batches, _runs(original, fused, batches, batch_size)):
        _check_finite(original, expected, batch, samples, names)
        samples += len(batch)
        changed += _changed(expected[0], computed[0])
        differences.append(max(relative_difference(a, b) for a, b in zip(expected, computed)))
        noise = max(noise, *(relative_difference(a, b) for a, b in zip(expected, noisy)))
    difference, allowed = max(differences), max(_TOLERANCE, _NOISE_FACTOR * noise)
    if allowed > _UNSTABLE:
        raise FusionError(
            f"the network's output changes by {noise:.2g} of its largest value when its input changes by a millionth: "
            "it holds random operators (Dropout with mode='always'?), is about to overflow, or amplifies rounding "
            "beyond use"
        )
    if difference > allowed:
        wrong = _first_wrong(original, fused, batches[differences.index(difference)])
        raise FusionError(
            f"the fused network deviates from the unfused one by {difference:.2g} of the largest value where rounding "
            f"explains {allowed:.2g}, and changes {changed} of {samples} predictions; the first wrong tensor is "
            f"{wrong!r}. Nothing was written; please report it"
        )
    return FusionCheck(samples, difference, allowed, changed)


def _runs(
    original: Graph, fused: Graph, batches: Iterable[np.ndarray], batch_size: int
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]]:
    """For each batch the outputs of the unfused network, those for slightly other input, and those of the fused one."""
    chosen = sorted_within(original)
    if not chosen or not {tensor.node for tensor in chosen} <= fused.by_name.keys():
        unfused = _with_noise(original, batches, batch_size)
        for computed, (expected, noisy) in zip(outputs_of(fused, batches, batch_size), unfused):
            yield expected, noisy, computed
        return
    (name,) = original.inputs
    for batch in batches:
        values = dict(zip(chosen, run(original.with_outputs(chosen), {name: batch})))
        ((expected, noisy),) = _with_noise(with_constants(original, values), [batch], len(batch))
        yield expected, noisy, run(with_constants(fused, values), {name: batch})


def _check_finite(
    original: Graph, outputs: Sequence[np.ndarray], batch: np.ndarray, before: int, names: Sequence[str]
) -> None:
    """Check that the unfused network's outputs for a batch are finite; ``before`` samples precede the batch."""
    for tensor, values in zip(original.outputs, outputs):
        # Regions of a second stage lie beside each other, those of an image together.
        finite = np.isfinite(values.reshape(len(batch), -1)).all(axis=1)
        if finite.all():
            continue
        number = int(np.argmin(finite))
        name = names[before + number] if names else f"sample {before + number}"
        source = _first_not_finite(original, batch[number : number + 1])
        raise ModelError(
            f"the network as given, before any fusion, computes NaN or infinite values for {name} in "
            f"{str(tensor)!r}; the first operator whose result is not finite is {source}. Give input of the range that "
            "the network was trained for, or end the network before that operator"
        )


def _first_not_finite(graph: Graph, sample: np.ndarray) -> str:
    """The first operator, in topological order, whose result for a sample holds NaN or infinite values."""
    exposed = graph.with_outputs(node.output for node in graph.nodes)
    for node, values in zip(graph.nodes, run(exposed, {graph.inputs[0]: sample})):
        if not np.isfinite(values).all():
            return f"{node.name!r} ({node.op})"
    return f"{graph.outputs[0].node!r}"


def _with_noise(
    graph: Graph, batches: Iterable[np.ndarray], batch_size: int
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """The network's outputs for each batch, and those for slightly other input.

    Token ids stay as they are, and the tables that look them up change instead.
    """
    (name,) = graph.inputs
    tokens = tokens_in(graph, name)
    if not tokens:
        both = outputs_of(graph, (data for batch in batches for data in (batch, _disturbed(batch))), batch_size)
        yield from zip(both, both)
        return
    tables = {node.inputs[1].node for _, embeddings in tokens for node in embeddings}
    params = {name: _disturbed(value) if name in tables else value for name, value in graph.params.items()}
    for batch, expected in zip(batches, outputs_of(graph, batches, batch_size)):
        noisy = _disturbed(batch)
        for places, _ in tokens:
            noisy[:, places] = batch[:, places]
        yield expected, run(replace(graph, params=params), {name: noisy})


def _disturbed(values: np.ndarray) -> np.ndarray:
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), values.shape)
    disturbed: np.ndarray = values * (1 + np.float32(_INPUT_NOISE) * signs)
    return disturbed


def predictions(output: np.ndarray) -> np.ndarray:
    """The index of the largest value of each sample's output, flattened."""
    classes: np.ndarray = output.reshape(len(output), -1).argmax(axis=1)
    return classes


def _changed(expected: np.ndarray, computed: np.ndarray) -> int:
    """How many samples are predicted otherwise; all where shapes differ."""
    if expected.shape != computed.shape:
        return len(expected)
    return int((predictions(expected) != predictions(computed)).sum())


def relative_difference(expected: np.ndarray, computed: np.ndarray) -> float:
    """The largest absolute deviation over the largest absolute value; infinite if a value is NaN or shapes differ."""
    if expected.shape != computed.shape:
        return float("inf")
    scale = float(np.abs(expected).max()) or 1.0
    deviation = float(np.abs(expected - computed).max()) / scale
    return deviation if np.isfinite(deviation) else float("inf")


def _first_wrong(original: Graph, fused: Graph, batch: np.ndarray) -> str:
    for tensor in (node.output for node in fused.nodes if node.name in original.by_name):
        before, after = (graph.with_outputs([tensor]).pruned() for graph in (original, fused))
        (expected,), (noisy,) = next(_with_noise(before, [batch], len(batch)))
        ((computed,),) = outputs_of(after, [batch], len(batch))
        allowed = max(_TOLERANCE, _NOISE_FACTOR * relative_difference(expected, noisy))
        if relative_difference(expected, computed) > allowed:
            return str(tensor)
    return str(original.outputs[0])
