"""The search for what is faster in FP32, and its proof, with networks whose operators take made-up times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

import quantkit
from quantkit import stages
from quantkit.backends.registry import MXNET
from quantkit.bundle import read_bundle, verify_bundle
from quantkit.errors import UserError
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.load import Load
from quantkit.ir.graph import Graph, Node
from quantkit.mixed_precision import busy, never_slower
from quantkit.mixed_precision.never_slower import search_speed
from quantkit.quantization.config import QuantizationConfig
from quantkit.stages import run_stages
from tests.quantized import int8_names

CONVERSIONS = ("_contrib_quantize_v2", "_contrib_dequantize")
LAYERS = ("Convolution", "FullyConnected")


class Machine:
    """Milliseconds by operator, exact in binary; some runs take longer than others, in all networks alike.

    ``slow`` are layers whose INT8 kernel takes eight times as long. Layers that are fused in FP32 take ``fused`` times
    as long as unfused.
    """

    def __init__(
        self, int8: float, fp32: float = 1.0, conversion: float = 0.125, slow: str = "nothing", fused: float = 1.0
    ) -> None:
        self.int8, self.fp32, self.conversion, self.slow, self.fused = int8, fp32, conversion, slow, fused
        self.asked: list[tuple[frozenset[str], tuple[int, ...], float]] = []

    def milliseconds(self, node: Node) -> float:
        if node.op in CONVERSIONS:
            return self.conversion
        if node.attrs.get("quantized") == "true":
            return self.int8 * (8 if self.slow in node.name else 1)
        if node.op.startswith("_sg_"):
            return self.fp32 * self.fused
        return self.fp32 if node.op in LAYERS else 0.0

    def latencies_in_turns(
        self, networks: Mapping[str, Graph], image: np.ndarray, seconds: float = 3.0, lead: int = 0
    ) -> dict[str, np.ndarray]:
        self.asked.append((frozenset(networks), image.shape, seconds))
        mood = np.array([1.0, 2.0, 4.0] * 5)
        times = {name: sum(map(self.milliseconds, graph.nodes)) for name, graph in networks.items()}
        return {name: total * mood for name, total in times.items()}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    monkeypatch.setattr(busy, "read_load", lambda cpus: Load(0.0, 0.0, 0.25))
    monkeypatch.setattr(never_slower, "with_load_of_others", lambda run, cpus: (run(), Load(-0.01, 0.0, 12.0)))

    def made(*times: float, **options: Any) -> Machine:
        machine = Machine(*times, **options)
        monkeypatch.setattr(never_slower, "latencies_in_turns", machine.latencies_in_turns)
        return machine

    return made


@pytest.fixture
def quantized(
    int8_engine: None, digits_fused: FusedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Any]:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    settings = QuantizationConfig(num_samples=8, preset="none", never_slower=True)

    def made(evaluation_data: Optional[str] = None, **changes: Any) -> Any:
        config = replace(settings, **changes)
        return run_stages(digits_fused.model, "digits:train", config, evaluation_data)

    return made


def all_layers(source: FusedModel) -> tuple[str, ...]:
    table = quantkit.calibrate(source, "digits:train", 8)
    return int8_names(source.fused.graph, quantkit.plan(source, table))


def test_int8_stays_where_it_is_faster(machine: Callable[..., Machine], quantized: Callable[..., Any]) -> None:
    machine(0.25)
    network = quantized().network
    proof = network.speed
    assert (proof.faster, proof.complete, proof.layers, proof.returned) == (True, True, 22, ())
    # 22 layers, and conversions of the input and before and after the mean.
    assert proof.ratio == proof.all_int8
    assert (proof.ratio.low, proof.ratio.high) == (proof.ratio.median, proof.ratio.median)
    assert proof.ratio.median == pytest.approx(22 / (22 * 0.25 + 3 * 0.125))
    assert "int8" not in proof.milliseconds
    assert network.network.int8_layers
    assert network.config.never_slower


def test_layers_that_are_faster_in_fp32_are_returned_and_say_so(
    machine: Callable[..., Machine], quantized: Callable[..., Any], tmp_path: Path
) -> None:
    machine(0.25, slow="stage2")
    made = quantized()
    proof, plan = made.network.speed, made.network.plan
    assert proof.faster
    assert proof.returned
    assert set(proof.returned) == {name for name in plan.decisions if "stage2" in name and _is_layer(made, name)}
    assert proof.ratio.median > proof.all_int8.median
    assert proof.milliseconds["int8"] < min(proof.milliseconds["fp32_fused"], proof.milliseconds["all_int8"])
    for name in proof.returned:
        assert "returned to FP32" in plan.decisions[name].reason
        assert "faster there by" in plan.decisions[name].reason
    bundle = read_bundle(made.network.save(tmp_path / "bundle"))
    assert bundle.manifest.settings is not None
    assert bundle.manifest.settings.speed == proof
    assert bundle.config == made.network.config
    assert verify_bundle(tmp_path / "bundle").ok


def _is_layer(made: Any, name: str) -> bool:
    return made.network.plan.decisions[name].operator.startswith(("Convolution", "FullyConnected"))


@pytest.mark.parametrize(
    ("conversion", "returned"),
    [(0.125, {"digits_stage2_relu1_fwd"}), (2.0, {"digits_dense0_fwd"})],
)
def test_a_slow_layer_stays_where_conversions_cost_more(
    machine: Callable[..., Machine], quantized: Callable[..., Any], conversion: float, returned: set[str]
) -> None:
    """Its neighbours are INT8. The dense layer has a conversion of its own, since a mean in FP32 comes before it."""
    machine(0.25, conversion=conversion, slow="stage2_relu1")
    assert set(quantized().network.speed.returned) == returned


def test_what_is_slower_throughout_ends_in_fp32(
    machine: Callable[..., Machine], quantized: Callable[..., Any], digits_fused: FusedModel, tmp_path: Path
) -> None:
    machine(1.5)
    network = quantized().network
    assert network.network.int8_layers == ()
    assert not network.speed.faster
    assert set(network.speed.returned) == set(all_layers(digits_fused))
    assert network.speed.ratio.verdict == "slower"
    network.save(tmp_path / "bundle")
    assert verify_bundle(tmp_path / "bundle").ok


def test_what_is_not_proven_to_be_faster_ends_in_fp32(
    machine: Callable[..., Machine], quantized: Callable[..., Any]
) -> None:
    """Every timing in the search says that INT8 is as fast, so nothing is returned; nor is the whole faster."""
    machine(1.0, conversion=0.0)
    network = quantized(search_minutes=3.0).network
    assert (network.speed.faster, network.speed.returned) == (False, ())
    assert network.speed.ratio.verdict == "not distinguishable"
    assert network.network.int8_layers == ()
    reasons = {each.reason for each in network.plan.decisions.values() if each.operator == "Convolution+relu"}
    assert reasons == {
        "returned to FP32: with INT8 the network is 1 times as fast as fused FP32 [1, 1] where it was quantized, "
        "not faster"
    }
    assert network.config.search_minutes == 3.0


@pytest.mark.parametrize("slow", ["", "stage2"])
def test_layers_return_to_int8_where_the_whole_is_faster_with_them(
    machine: Callable[..., Machine],
    quantized: Callable[..., Any],
    digits_fused: FusedModel,
    monkeypatch: pytest.MonkeyPatch,
    slow: str,
) -> None:
    """The search finds INT8 slower, everywhere or in some layers, and the proof finds it faster there."""
    timed = machine(0.25, slow=slow)

    def at_last_fast(
        networks: Mapping[str, Graph], image: np.ndarray, seconds: float, lead: int
    ) -> dict[str, np.ndarray]:
        if "fp32" in networks:
            timed.slow = "nothing"
        return timed.latencies_in_turns(networks, image, seconds, lead)

    monkeypatch.setattr(never_slower, "latencies_in_turns", at_last_fast)
    network = quantized().network
    assert (network.speed.faster, network.speed.returned) == (True, ())
    assert network.speed.ratio == network.speed.all_int8
    assert int8_names(network.source.fused.graph, network.plan) == all_layers(digits_fused)


def test_what_was_proven_stays_where_int8_throughout_is_not_proven_again(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the network with returned layers, INT8 throughout is faster than it; alone, slower than FP32."""
    timed = machine(0.25, slow="stage2")

    def changing(networks: Mapping[str, Graph], image: np.ndarray, seconds: float, lead: int) -> dict[str, np.ndarray]:
        if "fp32" in networks:
            timed.slow = "nothing" if "int8" in networks else ""
        return timed.latencies_in_turns(networks, image, seconds, lead)

    monkeypatch.setattr(never_slower, "latencies_in_turns", changing)
    made = quantized().network
    assert made.speed.faster and made.speed.returned
    assert made.speed.all_int8.low > made.speed.ratio.high
    assert not any(made.plan.decisions[name].is_int8 for name in made.speed.returned)
    # Six bindings for each proof.
    assert [networks for networks, _, _ in timed.asked[-12:]] == [
        *[frozenset({"fp32", "fp32_fused", "all_int8", "int8"})] * 6,
        *[frozenset({"fp32", "fp32_fused", "all_int8"})] * 6,
    ]


@pytest.mark.parametrize("unlucky", [0, 1])
def test_int8_has_to_be_faster_however_the_networks_are_bound(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, unlucky: int
) -> None:
    timed, bindings = machine(0.25), []

    def bound(networks: Mapping[str, Graph], image: np.ndarray, seconds: float, lead: int) -> dict[str, np.ndarray]:
        times = timed.latencies_in_turns(networks, image, seconds, lead)
        if "fp32" in networks:
            bindings.append(seconds)
            # Every network is bound well and badly, INT8 in the last bindings so badly that it is slower.
            badly = {"all_int8": 8.0} if len(bindings) > 6 - unlucky else dict.fromkeys(networks, float(len(bindings)))
            times = {name: each * badly.get(name, 1.0) for name, each in times.items()}
        return times

    monkeypatch.setattr(never_slower, "latencies_in_turns", bound)
    proof = quantized().network.speed
    assert bindings == [2.0] * 6
    assert (proof.bindings, proof.rounds) == (6, 6 * 15)
    assert proof.faster == (not unlucky)
    gain = 22 / (22 * 0.25 + 3 * 0.125)
    assert proof.ratio.median == pytest.approx(gain)
    assert (proof.ratio.low, proof.ratio.high) == (pytest.approx(gain / 8 if unlucky else gain), pytest.approx(gain))


def test_int8_has_to_be_faster_than_the_network_as_it_was_given_too(
    machine: Callable[..., Machine], quantized: Callable[..., Any]
) -> None:
    """It is faster than fused FP32, which takes twice as long as unfused, but not than that."""
    machine(1.25, fused=2.0)
    network = quantized().network
    proof = network.speed
    assert proof.milliseconds["all_int8"] < proof.milliseconds["fp32_fused"]
    assert (proof.faster, proof.reference, proof.ratio.verdict) == (False, "fp32", "slower")
    assert proof.fused.verdict == "slower"
    assert network.network.int8_layers == ()
    reasons = {each.reason for each in network.plan.decisions.values() if each.operator == "Convolution+relu"}
    assert all("times as fast as unfused FP32" in reason for reason in reasons)


def test_the_proof_tells_what_ran(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = machine(0.25)
    monkeypatch.setattr(never_slower, "session_threads", lambda: 7)
    proof = quantized().network.speed
    assert (proof.threads, proof.engine, proof.version) == (7, "mxnet", MXNET.backend().version())
    # Counters of little load may fall below 0.
    assert (proof.reference, proof.busy) == ("fp32_fused", 0.0)
    # Every candidate was timed once, and the proof in six bindings.
    assert proof.candidates == (len(timed.asked) - 6,) * 2


def test_the_batch_is_that_of_all_timings(machine: Callable[..., Machine], quantized: Callable[..., Any]) -> None:
    timed = machine(0.25)
    assert quantized(speed_batch=3).network.speed.batch == 3
    assert {shape for _, shape, _ in timed.asked} == {(3, 3, 32, 32)}
    assert timed.asked[-1][0] == {"fp32", "fp32_fused", "all_int8"}


def test_the_budget_ends_the_search(machine: Callable[..., Machine], quantized: Callable[..., Any]) -> None:
    timed = machine(0.25, slow="stage2")
    proof = quantized(search_minutes=0.0).network.speed
    assert (proof.complete, proof.returned) == (False, ())
    assert proof.candidates is not None and proof.candidates[0] > 22 and proof.candidates[1] == 0
    # The proof is made all the same, in six bindings.
    assert len(timed.asked) == 6


@pytest.mark.parametrize(("minutes", "seconds"), [(10.0, 1.0), (0.1, 0.4), (1.5, None)])
def test_a_timing_takes_as_long_as_the_budget_allows(
    machine: Callable[..., Machine], quantized: Callable[..., Any], minutes: float, seconds: Optional[float]
) -> None:
    timed = machine(0.25)
    quantized(search_minutes=minutes)
    candidates = len(timed.asked) - 6
    expected = 60 * minutes / 2 / candidates if seconds is None else seconds
    assert 0.4 <= expected <= 1.0
    assert [each for _, _, each in timed.asked[:-6]] == [pytest.approx(expected)] * candidates


def test_what_a_timing_takes_besides_is_deducted(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed, now = machine(0.25), [0.0]

    def slowly(networks: Mapping[str, Graph], image: np.ndarray, seconds: float, lead: int) -> dict[str, np.ndarray]:
        # Less in the first timing, but that is what the others are held to.
        now[0] += seconds + (0.125 if not timed.asked else 9.0)
        return timed.latencies_in_turns(networks, image, seconds, lead)

    monkeypatch.setattr(never_slower, "monotonic", lambda: now[0])
    monkeypatch.setattr(never_slower, "latencies_in_turns", slowly)
    monkeypatch.setattr(never_slower, "_LEAST_SECONDS", 0.0)
    quantized(search_minutes=1.5)
    first, *others = [seconds for _, _, seconds in timed.asked[:-6]]
    assert first == pytest.approx(45 / len([first, *others]))
    assert others == [pytest.approx(first - 0.125)] * len(others)


def test_a_goal_comes_after_it(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, tuple[Any, ...]] = {}

    def noted(name: str) -> None:
        step = getattr(stages, name)

        def noting(*arguments: Any) -> Any:
            given[name] = arguments
            return step(*arguments)

        monkeypatch.setattr(stages, name, noting)

    for name in ("prove_speed", "search_mixed_precision", "search_speed"):
        noted(name)
    machine(0.25, slow="stage2")
    made = quantized("digits:test", goal=quantkit.Goal(max_drop=100))
    assert list(given) == ["search_speed", "search_mixed_precision", "prove_speed"]
    returned = made.network.speed.returned
    assert returned and all("stage2" in name for name in returned)
    assert not any(given["search_mixed_precision"][2].decisions[name].is_int8 for name in returned)
    assert given["prove_speed"][0].mixed == made.network.mixed
    assert made.search is not None
    assert made.network.mixed.met
    assert made.network.speed.faster
    assert made.network.config.goal == quantkit.Goal(max_drop=100)


@pytest.mark.parametrize(("min_speedup", "met"), [(0.9, True), (1.5, False)])
def test_all_in_fp32_loses_nothing_and_may_be_too_slow_for_a_goal(
    machine: Callable[..., Machine], quantized: Callable[..., Any], min_speedup: float, met: bool, tmp_path: Path
) -> None:
    machine(1.5)
    made = quantized("digits:test", goal=quantkit.Goal(0.3, min_speedup))
    assert made.search is None
    assert (made.network.mixed.met, made.network.mixed.layers) == (met, ())
    made.network.save(tmp_path / "bundle")
    assert verify_bundle(tmp_path / "bundle").ok


def test_a_search_alone(machine: Callable[..., Machine], digits_fused: FusedModel, int8_engine: None) -> None:
    machine(0.25, slow="dense")
    table = quantkit.calibrate(digits_fused, "digits:train", 8)
    search = search_speed(digits_fused, quantkit.plan(digits_fused, table), 1.0)
    (dense,) = search.returned
    assert "dense" in dense
    assert search.returned[dense].gain.certain
    assert search.candidates[0] == search.candidates[1] > len(all_layers(digits_fused))


def test_others_work_is_warned_of(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(0.25)
    monkeypatch.setattr(busy, "read_load", lambda cpus: Load(1.5, 0.0, 0.25))
    with pytest.warns(busy.BusyWarning, match=r"use 1\.5 .*; quantize on an idle machine"):
        quantized()


def test_others_work_during_the_proof_is_warned_of_and_stored(
    machine: Callable[..., Machine], quantized: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(0.25)
    monkeypatch.setattr(never_slower, "with_load_of_others", lambda run, cpus: (run(), Load(0.75, 0.0, 12.0)))
    with pytest.warns(busy.BusyWarning, match=r"used 0\.8 .* the speed was measured.*; quantize on an idle machine"):
        assert quantized().network.speed.busy == 0.75
    monkeypatch.setattr(never_slower, "with_load_of_others", lambda run, cpus: (run(), None))
    assert quantized().network.speed.busy is None


def test_a_goal_of_speed_alone_contradicts_it() -> None:
    with pytest.raises(UserError, match="or a max_drop as well"):
        QuantizationConfig(never_slower=True, goal=quantkit.Goal(min_speedup=2))
