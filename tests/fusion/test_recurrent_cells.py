"""Unrolled cells of Gluon as recurrent layers, held against the engine's results of the cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.rewriting.rule import apply_rule
from quantkit.fusion.rules import recurrent_cells
from quantkit.fusion.rules.recurrent_cells import RECURRENT_CELLS
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RECURRENT, recurrent_layer_of
from tests.cells import HIDDEN, MODES, Reads, block, cell, initialized, stacked, traced
from tests.networks import DATA, Builder
from tests.sequences import FEATURES, STEPS

pytestmark = pytest.mark.usefixtures("engine")

LAST = STEPS - 1
NO_SEQUENCE = "its steps do not read those of one sequence, one after the other"


def checked(graph: Graph, shape: tuple[int, ...] = (STEPS, FEATURES)) -> Fused:
    """The network, fused, which computes the same for one sample and for three, and is led back from its FP32 form."""
    fused = fuse(graph, shape)
    floats = float_graph(fused.graph)
    for count in (1, 3):
        data = np.random.default_rng(4).normal(size=(count, *shape)).astype(np.float32)
        for wanted, result in zip(run(graph, {"data": data}), run(floats, {"data": data}), strict=True):
            assert result.shape == wanted.shape
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    if any(node.op == RECURRENT for node in fused.graph.nodes):
        assert [(node.name, node.op) for node in fused_graph(floats).nodes] == [
            (node.name, node.op) for node in fused.graph.nodes
        ]
    return fused


def operators(fused: Fused) -> list[str]:
    return [node.op for node in fused.graph.nodes]


def stays(graph: Graph, *reasons: str, shape: tuple[int, ...] = (STEPS, FEATURES)) -> None:
    """Check that no layer is made, and why not."""
    fused = checked(graph, shape)
    assert RECURRENT not in operators(fused)
    assert [each.reason for each in fused.rejected if each.rule == recurrent_cells.NAME] == list(reasons)


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_cells_whose_steps_are_stacked_are_layers(mode: str, layers: int, layout: str) -> None:
    fused = checked(traced(block(stacked(mode, layers), layout), layout))
    assert operators(fused) == [RECURRENT] * layers
    assert {node.attrs["mode"] for node in fused.graph.nodes} == {mode}


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_of_the_last_step_alone_a_layer_hands_on_that(mode: str, layers: int, layout: str) -> None:
    fused = checked(traced(block(stacked(mode, layers), layout, "last"), layout))
    assert operators(fused) == [*[RECURRENT] * layers, "slice_axis", "Reshape"]


@pytest.mark.parametrize("reads", ["states", "final"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_final_states_are_those_of_layers(mode: str, layers: int, reads: Reads) -> None:
    fused = checked(traced(block(stacked(mode, layers), reads=reads)))
    counts = Counter(operators(fused))
    assert counts[RECURRENT] == layers
    assert counts["_copy"] == (layers if mode == "lstm" else 0)
    assert counts.keys() <= {RECURRENT, "_copy", "Reshape", "SliceChannel", "slice_axis"}


def test_cells_whose_state_after_the_last_step_nothing_reads_stay() -> None:
    stays(traced(block(stacked("lstm", 1), reads="final cell")))


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_cells_in_both_directions_are_two_layers(mode: str, layers: int, layout: str) -> None:
    counts = Counter(operators(checked(traced(block(stacked(mode, layers, both=True), layout), layout))))
    assert counts[RECURRENT] == 2 * layers
    assert counts.keys() - {"SwapAxis"} == {RECURRENT, "reverse", "Concat"}
    assert ("SwapAxis" in counts) == (layout == "TNC")


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("mode", MODES)
def test_of_the_last_step_in_both_directions_the_backward_cell_computes_one_step(mode: str, layout: str) -> None:
    counts = Counter(operators(checked(traced(block(stacked(mode, 1, both=True), layout, "last"), layout))))
    assert (counts[RECURRENT], counts["FullyConnected"]) == (1, 2)


def encoder_and_decoder() -> Any:
    mx = load_mxnet()

    class Both(mx.gluon.HybridBlock):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = cell("lstm", FEATURES), cell("lstm", FEATURES)

        def hybrid_forward(self, symbol: Any, data: Any) -> Any:
            _, states = self.encoder.unroll(STEPS, data, merge_outputs=True)
            return self.decoder.unroll(STEPS, data, begin_state=states, merge_outputs=True)[0]

    return initialized(Both())


def test_a_layer_begins_at_the_final_states_of_another() -> None:
    fused = checked(traced(encoder_and_decoder()))
    layers = [layer for node in fused.graph.nodes if (layer := recurrent_layer_of(node)) is not None]
    assert [len(layer.states) for layer in layers] == [0, 2]
    assert [layer.puts_out_cell for layer in layers] == [True, False]


def changed(graph: Graph, changes: dict[str, dict[str, Any]], *outputs: str) -> Graph:
    """The network with other fields of some nodes, by the ends of their names, and further outputs."""

    def fields(node: Node) -> dict[str, Any]:
        return next((change for name, change in changes.items() if node.name.endswith(name)), {})

    nodes = tuple(replace(node, **fields(node)) for node in graph.nodes)
    return replace(graph, nodes=nodes, outputs=(*graph.outputs, *map(Tensor, outputs)))


@cache
def unrolled(mode: str = "lstm") -> Graph:
    return traced(block(stacked(mode, 1)))


@pytest.mark.parametrize("given", [("0",), ("1",), ("0", "1")])
def test_states_may_follow_from_the_input(given: tuple[str, ...]) -> None:
    graph, b = unrolled(), Builder()
    first = b.op("slice_axis", "first", DATA, axis=1, begin=0, end=1)
    begins = {f"begin_state_{name}": b.dense(f"dense{name}", first, FEATURES, HIDDEN) for name in given}
    # What began at zero begins at the results.
    moved = {node.output: begins[end] for node in graph.nodes for end in begins if node.name.endswith(end)}
    nodes = [replace(node, inputs=tuple(moved.get(each, each) for each in node.inputs)) for node in graph.nodes]
    whole = replace(graph, nodes=(*b.nodes, *nodes), params={**graph.params, **b.params}).pruned()
    fused = checked(whole)
    (layer,) = (layer for node in fused.graph.nodes if (layer := recurrent_layer_of(node)) is not None)
    assert len(layer.states) == 2
    assert operators(fused).count("FullyConnected") == len(given)


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_stands_for_all_operators_of_its_steps(mode: str) -> None:
    graph = unrolled(mode)
    (layer,) = fuse(graph, (STEPS, FEATURES)).graph.nodes
    assert layer.origin == tuple(node.name for node in graph.nodes if node.name.startswith("cell_t"))


def test_steps_that_are_read_one_by_one_are_taken_from_the_layer() -> None:
    fused = checked(changed(unrolled(), {}, "cell_t2_out", "cell_t4_out"))
    assert operators(fused) == [RECURRENT, "SliceChannel"]


@pytest.mark.parametrize(
    ("node", "fields"),
    [
        ("cell_t2_activation0", {"attrs": {"act_type": "softsign"}}),
        ("cell_t2_f", {"op": "tanh"}),
        ("cell_t2_mul0", {"op": "elemwise_add"}),
        ("cell_t2_i2h", {"inputs": (Tensor("split", 2), Tensor("other"), Tensor("cell_i2h_bias"))}),
        ("cell_t2_h2h", {"inputs": (Tensor("cell_t1_out"), Tensor("cell_h2h_weight"), Tensor("other_bias"))}),
        ("cell_t2_mul0", {"inputs": (Tensor("cell_t2_f"), Tensor("cell_t0_state"))}),
        ("cell_t2_i", {"inputs": (Tensor("cell_t2_slice", 1),)}),
        ("cell_t2_c", {"inputs": (Tensor("cell_t1_slice", 2),)}),
    ],
)
def test_a_step_that_differs_keeps_the_cells(node: str, fields: dict[str, Any]) -> None:
    graph = unrolled()
    split = next(each.name for each in graph.nodes if each.op == "SliceChannel" and each.inputs == (DATA,))
    named = {
        key: tuple(replace(each, node=split) if each.node == "split" else each for each in value)
        if key == "inputs"
        else value
        for key, value in fields.items()
    }
    others = {"other": graph.params["cell_i2h_weight"] + 1, "other_bias": graph.params["cell_h2h_bias"] + 1}
    whole = replace(graph, params={**graph.params, **others})
    # The steps after it are alike, but not all that the sequence has.
    stays(changed(whole, {node: fields | named}).pruned(), NO_SEQUENCE)


def test_a_step_that_reads_two_states_keeps_the_cells() -> None:
    stays(
        changed(unrolled("gru"), {"cell_t2_mul20": {"inputs": (Tensor("cell_t2_z_act"), Tensor("cell_t0_out"))}}),
        NO_SEQUENCE,
    )


def test_a_step_that_follows_an_earlier_one_keeps_the_cells() -> None:
    graph = unrolled()
    _, *parameters = next(node.inputs for node in graph.nodes if node.name == "cell_t2_h2h")
    again = {"cell_t2_h2h": {"inputs": (Tensor("cell_t0_out"), *parameters)}}
    stays(changed(graph, again), "several steps follow cell_t0_out, or more than 64 operators read it", NO_SEQUENCE)


def test_gates_in_another_order_are_no_cell() -> None:
    swapped = {
        f"cell_t{step}_{gate}": {"inputs": (Tensor(f"cell_t{step}_slice", place),)}
        for step in range(STEPS)
        for gate, place in (("i", 1), ("f", 0))
    }
    stays(changed(unrolled(), swapped))


@pytest.mark.parametrize(
    ("attrs", "taken"),
    [({"axis": "-1"}, True), ({"axis": "0"}, False), ({"squeeze_axis": "1"}, False), ({"num_outputs": "8"}, False)],
)
def test_how_gates_are_taken_apart(attrs: dict[str, str], taken: bool) -> None:
    graph = unrolled()
    slices = {f"cell_t{step}_slice": {"attrs": {"num_outputs": "4", **attrs}} for step in range(STEPS)}
    # The engine would refuse these shapes.
    _, applied, _ = apply_rule(changed(graph, slices), RECURRENT_CELLS, fuse(graph, (STEPS, FEATURES)).shapes)
    assert bool(applied) == taken


def test_steps_in_another_order_keep_the_cells() -> None:
    graph = unrolled()
    inputs = {node.name: node.inputs for node in graph.nodes}
    one, other = "cell_t1_i2h", "cell_t2_i2h"
    stays(changed(graph, {one: {"inputs": inputs[other]}, other: {"inputs": inputs[one]}}), NO_SEQUENCE)


def other_split(**attrs: str) -> Graph:
    graph = unrolled()
    split = next(each for each in graph.nodes if each.op == "SliceChannel" and each.inputs == (DATA,))
    return changed(graph, {split.name: {"attrs": {**split.attrs, **attrs}}})


def test_a_sequence_of_more_steps_keeps_the_cells() -> None:
    stays(other_split(num_outputs=str(STEPS + 1)), NO_SEQUENCE, shape=(STEPS + 1, FEATURES))


def test_steps_that_are_no_vectors_keep_the_cells() -> None:
    stays(other_split(squeeze_axis="0"), NO_SEQUENCE)
    stays(unrolled(), NO_SEQUENCE, shape=(STEPS, FEATURES, 1))


def test_a_split_of_another_axis_keeps_the_cells() -> None:
    # As many features as steps, so that either may be taken apart.
    graph = traced(block(cell("lstm", STEPS)), shape=(STEPS, STEPS))
    split = next(each for each in graph.nodes if each.op == "SliceChannel" and each.inputs == (DATA,))
    stays(changed(graph, {split.name: {"attrs": {**split.attrs, "axis": "2"}}}), NO_SEQUENCE, shape=(STEPS, STEPS))


@pytest.mark.parametrize(("parts", "axis"), [(2, 0), (3, 1)])
def test_steps_that_are_joined_otherwise_keep_the_cells(parts: int, axis: int) -> None:
    graph = unrolled()
    weight = np.tile(graph.params["cell_i2h_weight"], (1, parts if axis else 1))
    layers = [node for node in graph.nodes if node.name.endswith("i2h")]
    joined = [
        Node(f"joined{number}", "Concat", layer.inputs[:1] * parts, {"dim": str(axis), "num_args": str(parts)})
        for number, layer in enumerate(layers)
    ]
    reading = [replace(one, inputs=(other.output, *one.inputs[1:])) for one, other in zip(layers, joined)]
    first, *others = (node for node in graph.nodes if node not in layers)
    assert first.op == "SliceChannel"
    nodes = (first, *joined, *reading, *others)
    stays(replace(graph, nodes=nodes, params={**graph.params, "cell_i2h_weight": weight}), NO_SEQUENCE)


@pytest.mark.parametrize("name", ["cell_t2_plus0", "cell_t2_o", "cell_t2_state", f"cell_t{LAST}_c"])
def test_what_is_inside_and_read_elsewhere_keeps_the_cells(name: str) -> None:
    stays(changed(unrolled(), {}, name), f"{name}, a tensor inside of its steps, is read elsewhere, too")


def test_computed_weights_keep_the_cells() -> None:
    graph = unrolled()
    doubled = Node("doubled", "_mul_scalar", (Tensor("cell_h2h_weight"),), {"scalar": "2"})
    nodes = (
        replace(node, inputs=tuple(doubled.output if each in doubled.inputs else each for each in node.inputs))
        for node in graph.nodes
    )
    stays(replace(graph, nodes=(doubled, *nodes)), "its weights are computed, not constant")


def test_constant_states_keep_the_cells() -> None:
    stays(changed(unrolled(), {"begin_state_1": {"op": "_ones"}}), "its initial states are constants other than zero")


def test_names_that_are_taken_keep_the_cells() -> None:
    graph = unrolled()
    other = Node(f"cell_t{LAST}_out_layer_rnn", "tanh", (DATA,))
    whole = replace(graph, nodes=(other, *graph.nodes), outputs=(*graph.outputs, other.output))
    stays(whole, "other operators have the names of its parts")


def branches(before: int, count: int, after: int = 2) -> Graph:
    """Steps of a vanilla cell, and then several ways to go on, of which each has steps of its own."""
    b = Builder()
    weight, state_weight = (b.param(name, np.ones((2, 2))) for name in ("weight", "state_weight"))
    bias = b.param("bias", np.ones(2))

    def step(name: str, state: Tensor) -> Tensor:
        of_input = b.op("FullyConnected", f"{name}_i2h", DATA, weight, bias, num_hidden=2)
        of_state = b.op("FullyConnected", f"{name}_h2h", state, state_weight, bias, num_hidden=2)
        return b.op("tanh", name, b.op("elemwise_add", f"{name}_sum", of_input, of_state))

    trunk = DATA
    for number in range(before):
        trunk = step(f"trunk{number}", trunk)
    ends = []
    for branch in range(count):
        state = trunk
        for number in range(after):
            state = step(f"branch{branch}_{number}", state)
        ends.append(state)
    return b.graph(*ends)


@pytest.mark.parametrize(("count", "rejected"), [(1, NO_SEQUENCE), (2, "several steps follow trunk2"), (65, "several")])
def test_steps_that_branch_stay(count: int, rejected: str) -> None:
    graph = branches(3, count)
    shapes = {node.output: (1, 2) for node in graph.nodes}
    same, applied, reasons = apply_rule(graph, RECURRENT_CELLS, shapes)
    assert same.nodes == graph.nodes
    assert not applied
    assert len(reasons) == count
    assert all(each.reason.startswith(rejected) for each in reasons)


def test_a_state_that_very_many_read_keeps_the_cells() -> None:
    graph = branches(3, 1)
    readers = tuple(Node(f"reader{number}", "tanh", (Tensor("trunk1"),)) for number in range(64))
    outputs = (*graph.outputs, *(each.output for each in readers))
    whole = replace(graph, nodes=(*graph.nodes, *readers), outputs=outputs)
    _, applied, (rejected,) = apply_rule(whole, RECURRENT_CELLS, {node.output: (1, 2) for node in whole.nodes})
    assert not applied
    assert rejected.reason == "several steps follow trunk1, or more than 64 operators read it"


def test_a_single_step_is_no_layer() -> None:
    graph = branches(0, 1, 1)
    same, applied, rejected = apply_rule(graph, RECURRENT_CELLS, {})
    assert (same.nodes, applied, rejected) == (graph.nodes, (), ())


@pytest.mark.parametrize("count", [1, 60])
def test_steps_are_not_gone_through_for_every_branch(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, looked_at = branches(200, count), 0
    step_of = recurrent_cells.step_of

    def counted(*args: Any) -> Any:
        nonlocal looked_at
        looked_at += 1
        return step_of(*args)

    monkeypatch.setattr(recurrent_cells, "step_of", counted)
    apply_rule(graph, RECURRENT_CELLS, {node.output: (1, 2) for node in graph.nodes})
    assert looked_at < 2 * len(graph.nodes)
