from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.backends.registry import DEPLOYED
from quantkit.benchmark.build import Build
from quantkit.benchmark.results.results import Contestant, Published
from quantkit.benchmark.suites.compose import among, compose, left_out, part
from quantkit.benchmark.suites.suite import Subject, Suite
from quantkit.benchmark.variants import form_of, variants_of
from quantkit.errors import UserError


def build(name: str, int8: bool) -> Build:
    return Build(name, "/python", "3.11", "1.26", "1.9.1", "/lib", (), int8)


NATIVE, ONEDNN = build("native", False), build("onednn", True)
NET = Subject("net", model="net")


def names(suite: Suite) -> list[str]:
    return [each.name for each in suite.contestants]


def test_native_builds_run_fp32_alone_and_are_the_baseline() -> None:
    suite = compose(NET, [NATIVE, ONEDNN], ["fp32", "fused", "int8"], ["node"], [1, 16], "throughput")
    assert names(suite) == ["native", "onednn FP32", "onednn fused", "onednn INT8"]
    assert suite.baseline == "native"
    assert suite.contestants[3] == Contestant("onednn INT8", "onednn", "int8", "node")


def test_several_policies_are_contestants_of_their_own() -> None:
    suite = compose(NET, [ONEDNN], ["int8"], ["1x1", "2x1"], [1], "throughput")
    assert [(each.name, each.policy) for each in suite.contestants] == [
        ("onednn INT8 1x1", "1x1"),
        ("onednn INT8 2x1", "2x1"),
    ]


@pytest.mark.parametrize(
    ("scenario", "policy", "batches"),
    [("throughput", "node", (1, 16)), ("latency", "latency", (1,)), ("server", "latency", (1,))],
)
def test_placement_and_batch_sizes_follow_the_scenario(scenario: str, policy: str, batches: tuple[int, ...]) -> None:
    suite = compose(NET, [ONEDNN], ["int8"], scenario=scenario)
    assert ({each.policy for each in suite.contestants}, suite.batches) == ({policy}, batches)
    given = compose(NET, [ONEDNN], ["int8"], ["core"], [3], scenario)
    assert ({each.policy for each in given.contestants}, given.batches) == ({"core"}, (3,))


def test_a_bundle_without_its_reference_has_only_its_own_form(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert variants_of(str(tmp_path), None) == ("int8",)
    assert variants_of(str(tmp_path), "net") == variants_of("net", None) == ("fp32", "fused", "int8")


def test_other_engines_run_fp32_int8_and_what_their_own_quantizers_make() -> None:
    others = [replace(build(name, True), engine=name) for name in ("onnxruntime", "openvino")]
    variants = ["fp32", "fused", "int8", "onnxruntime-ptq", "nncf"]
    suite = compose(NET, [NATIVE, ONEDNN, *others], variants, ["node"], [1], "throughput")
    assert names(suite) == [
        "native", "onednn FP32", "onednn fused", "onednn INT8", "onnxruntime FP32", "onnxruntime INT8",
        "onnxruntime PTQ", "openvino FP32", "openvino INT8", "openvino NNCF",
    ]  # fmt: skip
    with pytest.raises(UserError, match="no variant 'int4'"):
        compose(NET, others, ["int4"], ["node"], [1], "throughput")


def test_every_engine_knows_the_form_of_what_it_can_run() -> None:
    assert [form_of(engine, "int8") for engine in DEPLOYED] == ["int8", "onnx-int8-dynamic", "onnx-int8"]
    with pytest.raises(UserError, match="OpenVINO cannot run the variant fused; it can run fp32, int8, nncf"):
        form_of("openvino", "fused")


def test_native_builds_alone_cannot_run_int8() -> None:
    with pytest.raises(UserError, match="native can run int8"):
        compose(NET, [NATIVE], ["int8"], ["node"], [1], "throughput")


def test_what_was_asked_for_and_takes_no_part_is_told(suite: Suite) -> None:
    composed = compose(NET, [NATIVE, ONEDNN], ["int8", "nncf"], ["node"], [1], "throughput")
    assert left_out(composed, ["native", "onednn"], ["int8", "nncf"]) == (
        "build native is left out: it takes part in none of the variants int8",
        "variant nncf is left out: none of these builds takes part in it",
    )
    assert left_out(part(suite, variants=["int8"]), ["native"], ["int8"]) == (
        "build native is left out: it takes part in none of the variants int8",
    )
    assert left_out(suite, ["native", "onednn"], ["fp32", "int8"]) == ()


@pytest.fixture
def suite() -> Suite:
    contestants = tuple(
        Contestant(name, build, variant, "node")
        for name, build, variant in (
            ("native", "native", "fp32"),
            ("MKL", "onednn", "fp32"),
            ("INT8", "onednn", "int8"),
        )
    )
    published = tuple(
        Published(net, 64, name, "throughput", "speedup", 2.0) for net in "ab" for name in ("MKL", "INT8")
    )
    subjects = (Subject("a", model="a"), Subject("b", model="b", batches=(2,)))
    return Suite("toy", "Toy", "throughput", (1, 64), "native", subjects, contestants, published)


def test_a_part_keeps_what_belongs_to_it(suite: Suite) -> None:
    found = part(suite, networks=["b"], builds=["onednn"], variants=["int8"])
    assert [each.name for each in found.networks] == ["b"]
    assert names(found) == ["INT8"] and found.baseline == "INT8"
    published = part(suite, networks=["b"]).published
    assert [(each.network, each.contestant) for each in published] == [("b", "MKL"), ("b", "INT8")]


def test_nobody_is_against_a_contestant_that_is_gone(suite: Suite) -> None:
    native, mkl, int8 = suite.contestants
    suite = replace(suite, contestants=(native, mkl, replace(int8, against=("native", "MKL"))))
    assert [each.against for each in part(suite, builds=["onednn"]).contestants] == [(), ("MKL",)]


def test_published_speedups_belong_to_their_baseline(suite: Suite) -> None:
    figures = [Published("b", 1, "INT8", "throughput", metric, 2.0) for metric in ("speedup", "throughput")]
    suite = replace(suite, published=tuple(figures))
    assert among(suite, suite.contestants).published == tuple(figures)
    assert among(suite, suite.contestants[1:]).published == tuple(figures[1:])


def test_other_batches_scenario_and_policies(suite: Suite) -> None:
    found = part(suite, batches=[4], scenario="latency", policies=["1x1", "2x1"])
    assert [each.batches for each in found.networks] == [(4,), (4,)]
    assert {each.scenario for each in found.networks} == {"latency"}
    larger = replace(suite, largest=(32,))
    assert (part(larger, batches=[4]).largest, part(larger, networks=["b"]).largest) == ((), (32,))
    assert names(found) == ["native 1x1", "native 2x1", "MKL 1x1", "MKL 2x1", "INT8 1x1", "INT8 2x1"]


def test_one_policy_keeps_the_names(suite: Suite) -> None:
    found = part(suite, policies=["core"])
    assert [(each.name, each.policy) for each in found.contestants] == [
        ("native", "core"),
        ("MKL", "core"),
        ("INT8", "core"),
    ]
    assert found.baseline == "native"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"networks": ["c"]}, "no network 'c'; it has a, b"),
        ({"builds": ["mkl"]}, "no build 'mkl'; it has native, onednn"),
        ({"variants": ["stock"]}, "no variant 'stock'; it has fp32, int8"),
        ({"builds": ["native"], "variants": ["int8"]}, "no contestant with these"),
    ],
)
def test_what_a_suite_does_not_have(suite: Suite, options: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        part(suite, **options)
