"""From facts to findings: a sound machine, and each thing that can be wrong with one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.backends.mxnet.instructions import VARIABLE, WITHOUT_VNNI
from quantkit.host.cpu import Cpu
from quantkit.host.diagnose import Finding, diagnose
from quantkit.host.facts import EngineBuild, Facts, Home
from quantkit.host.limits import Limits
from quantkit.host.load import Load
from quantkit.host.report import examine, report_on
from quantkit.host.threads import Threads

ONEDNN = EngineBuild("mxnet", "1.9.1", ("MKLDNN",), ("_sg_mkldnn_conv",))
MKL = EngineBuild("mxnet-mkl", "1.6.0", ("MKLDNN",), ("_sg_mkldnn_conv",))
NONE = EngineBuild("", "", problem="no mxnet", remedy="get it")
CPU = Cpu("Xeon", "GenuineIntel", 8, 4, tuple(range(8)), 4, ("AVX2", "AVX512", "AVX512-VNNI"))
SOUND = Facts(
    python=(3, 11, 4),
    numpy="1.26.4",
    engine=ONEDNN,
    gluoncv="0.10.5",
    extras={"samples": (), "report": (), "onnxruntime": (), "openvino": ()},
    home=Home("/home/me/.cache/quantkit", True),
    cpu=CPU,
    limits=Limits(),
    load=Load(0.1, 0.0, 0.25),
    threads=Threads({"OMP_NUM_THREADS": "4"}, True),
    onnx_engines={"onnxruntime": "1.31.1"},
)


def _bad(facts: Facts) -> list[Finding]:
    return [finding for finding in diagnose(facts) if finding.level != "ok"]


def test_a_sound_machine() -> None:
    assert _bad(SOUND) == []
    assert {finding.topic for finding in diagnose(SOUND)} == {
        "python", "numpy", "engine", "gluoncv", "onnxruntime", "extras", "home", "isa", "threads", "load",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "topic", "level", "what", "remedy"),
    [
        ({"python": (3, 8, 1)}, "python", "fail", "3.8.1", "3.11"),
        ({"python": (3, 13, 0)}, "python", "warn", "3.13.0", "3.11"),
        ({"numpy": "2.1.0"}, "numpy", "fail", "NumPy 2.1.0", "numpy<2"),
        ({"engine": EngineBuild("mxnet", "1.9.1", problem="broken", remedy="do")}, "engine", "fail", "broken", "do"),
        ({"engine": NONE}, "engine", "warn", "run in ONNX Runtime and OpenVINO, nothing is quantized", "get it"),
        ({"engine": NONE, "extras": {"onnxruntime": ("onnxruntime",), "openvino": ("openvino",)}}, "engine", "fail",
         "no mxnet", "get it"),
        ({"engine": replace(MKL, int8_obstacle="it dies; do this")}, "engine", "fail", "it dies", "do this"),
        ({"gluoncv": None}, "gluoncv", "warn", "not installed", "pip install"),
        ({"home": Home("/nowhere", False)}, "home", "fail", "/nowhere", "QUANTKIT_HOME"),
        ({"threads": Threads({"OMP_NUM_THREADS": "4"}, False)}, "libgomp", "fail", "libgomp", "libgomp1"),
        ({"cpu": replace(CPU, isa=("AVX2", "AVX512"))}, "isa", "warn", "saturate", "--exclude"),
        ({"cpu": replace(CPU, isa=("AVX2", "AVX-VNNI")), "engine": MKL}, "isa", "warn", "VNNI: not used", "[onednn]"),
        ({"threads": Threads({"OMP_NUM_THREADS": "9"}, True)}, "threads", "warn", "may run on 8", "OMP_NUM_THREADS=4"),
        ({"threads": Threads({"OMP_NUM_THREADS": "8"}, True)}, "threads", "warn", "the 4 that", "OMP_NUM_THREADS=4"),
        ({"threads": Threads({"OMP_NUM_THREADS": "x"}, True)}, "threads", "warn", "not a number", "OMP_NUM_THREADS=4"),
        ({"limits": Limits(4.0)}, "quota", "warn", "4 cores' time", "OMP_NUM_THREADS=4"),
        ({"limits": Limits(unreadable="/sys/cpu.max")}, "quota", "warn", "cpu.max cannot be read", "container"),
        ({"load": None}, "load", "warn", "does not show how busy", "outside the container"),
        ({"load": Load(1.5, 0.0, 0.25)}, "load", "warn", "1.5 of 8", "stop the other work"),
        ({"load": Load(1.5, 1.0, 0.25)}, "load", "warn", "1.0 of them taken by the hypervisor", "taskset"),
    ],
)  # fmt: skip
def test_one_thing_wrong(change: dict[str, Any], topic: str, level: str, what: str, remedy: str) -> None:
    findings = _bad(replace(SOUND, **change))
    assert [(finding.topic, finding.level) for finding in findings] == [(topic, level)]
    assert what in findings[0].what
    assert remedy in findings[0].remedy


AVX512 = ("AVX2", "AVX512")


@pytest.mark.parametrize(
    ("isa", "engine", "level", "remedies"),
    [
        (("AVX2",), ONEDNN, "warn", ("quantkit analyze", "--exclude", "--reduce-range auto")),
        (("AVX2",), MKL, "warn", ("quantkit analyze", "--exclude", "--reduce-range auto")),
        (AVX512, ONEDNN, "warn", ("quantkit analyze", "--exclude", "--reduce-range auto")),
        (AVX512, MKL, "warn", ("quantkit analyze", "--exclude", "--reduce-range auto")),
        ((), ONEDNN, "warn", ("quantkit analyze", "--exclude", "--reduce-range auto")),
        (("AVX2", "AVX-VNNI"), ONEDNN, "ok", ()),
        (("AVX2", "AVX-VNNI"), MKL, "warn", ("'quantkit[onednn]'",)),
        ((*AVX512, "AVX512-VNNI"), ONEDNN, "ok", ()),
        ((*AVX512, "AVX512-VNNI"), MKL, "ok", ()),
        ((*AVX512, "AVX512-VNNI", "AMX-INT8"), ONEDNN, "ok", ()),
        ((*AVX512, "AVX512-VNNI", "AMX-INT8"), MKL, "ok", ()),
        (("AVX2", "AVX-VNNI", *AVX512, "AVX512-VNNI", "AMX-INT8"), MKL, "ok", ()),
    ],
)
def test_advice_by_kind_of_processor(
    isa: tuple[str, ...], engine: EngineBuild, level: str, remedies: tuple[str, ...]
) -> None:
    facts = replace(SOUND, cpu=replace(CPU, isa=isa), engine=engine)
    (finding,) = [each for each in diagnose(facts) if each.topic == "isa"]
    assert finding.level == level
    assert all(remedy in finding.remedy for remedy in remedies)
    # Neither engine can do that.
    assert "7 bits" not in finding.remedy


@pytest.mark.parametrize("architecture", ["aarch64", "ppc64le"])
def test_other_architectures_get_no_advice_that_does_not_serve_there(architecture: str) -> None:
    facts = replace(SOUND, cpu=replace(CPU, model=architecture, isa=(), architecture=architecture))
    (finding,) = _bad(facts)
    assert (finding.topic, finding.level) == ("isa", "fail")
    assert architecture in finding.what
    assert "VNNI" not in finding.what + finding.remedy
    assert "x86-64" in finding.remedy


def _sorry_states() -> Iterator[Facts]:
    """Machines with everything wrong that can be."""
    for engine in (
        ONEDNN,
        MKL,
        replace(MKL, int8_obstacle="it dies; do this"),
        NONE,
    ):
        for isa in ((), ("AVX2",), AVX512, ("AVX2", "AVX-VNNI")):
            for threads in ({}, {"OMP_NUM_THREADS": "99", "KMP_AFFINITY": "x", "DNNL_MAX_CPU_ISA": "AVX2"}):
                yield replace(
                    SOUND, engine=engine, cpu=replace(CPU, isa=isa), gluoncv=None, home=Home("/nowhere", False),
                    limits=Limits(2.0), load=Load(3.0, 1.0, 0.25), threads=Threads(threads, False), numpy="2.0.0",
                )  # fmt: skip


def _command(cli: Any, context: Any, verb: str) -> Any:
    found = cli.get_command(context, verb)
    assert found is not None, f"there is no command {verb}"
    return found


def test_advice_names_only_commands_options_and_extras_that_exist() -> None:
    import tomllib

    import click

    from quantkit.cli.main import cli

    context = click.Context(cli)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    seen = set()
    for facts in _sorry_states():
        for finding in diagnose(facts):
            for verb, options in re.findall(r"quantkit (\w+)((?: --[\w-]+(?: \w+)?)*)", finding.remedy):
                known = {option for parameter in _command(cli, context, verb).params for option in parameter.opts}
                assert set(re.findall(r"--[\w-]+", options)) <= known
                seen.add((verb, options.strip()))
            for extra in re.findall(r"quantkit\[(\w+)\]", finding.remedy):
                assert extra in project["optional-dependencies"]
    assert seen == {("analyze", ""), ("quantize", "--exclude"), ("export", "--reduce-range auto")}


def test_a_deployment_without_mxnet_needs_neither_its_numpy_nor_its_python() -> None:
    facts = replace(SOUND, engine=NONE, numpy="2.4.1", python=(3, 13, 0), gluoncv=None, threads=Threads({}, False))
    assert [finding.topic for finding in _bad(facts)] == ["engine"]


def test_extras_are_listed_with_what_they_lack() -> None:
    facts = replace(SOUND, extras={**SOUND.extras, "report": ("jinja2", "matplotlib")})
    (finding,) = (finding for finding in diagnose(facts) if finding.topic == "extras")
    assert finding.what == (
        "installed: samples, onnxruntime, openvino; not installed: report (without jinja2, matplotlib)"
    )


def test_unset_threads_are_no_fault_but_what_mxnet_would_take_is_told() -> None:
    facts = replace(SOUND, threads=Threads({}, True), cpu=replace(CPU, usable=(0, 1), usable_cores=2))
    assert _bad(facts) == []
    (finding,) = (finding for finding in diagnose(facts) if finding.topic == "threads")
    assert "quantkit takes 2" in finding.what
    assert "MXNet by itself takes 1" in finding.what


def test_a_quota_below_the_threads_is_found() -> None:
    facts = replace(SOUND, limits=Limits(2.0), threads=Threads({}, True))
    assert [(finding.topic, finding.remedy[-17:]) for finding in _bad(facts)] == [("quota", "OMP_NUM_THREADS=2")]


def test_a_quota_that_allows_all_and_an_idle_load_are_sound() -> None:
    assert _bad(replace(SOUND, limits=Limits(8.0), load=Load(0.49, 0.0, 0.25))) == []


@pytest.mark.parametrize("isa", [("AVX2", "AVX-VNNI"), ("AVX512-VNNI", "AMX-INT8")])
def test_onednn_uses_all_of_vnni(isa: tuple[str, ...]) -> None:
    assert _bad(replace(SOUND, cpu=replace(CPU, isa=isa))) == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MXNET_SUBGRAPH_BACKEND", "MKLDNN", "quantkit ignores it"),
        ("MXNET_MKLDNN_ENABLED", "0", "quantkit ignores it"),
        ("MXNET_DISABLE_MKLDNN_FUSE_CONV_BN", "1", "quantkit ignores it"),
        ("DNNL_MAX_CPU_ISA", "AVX2", "quantkit obeys it"),
        ("MKLDNN_VERBOSE", "1", "standard output"),
        ("KMP_AFFINITY", "granularity=fine", "does not read it"),
    ],
)
def test_variables(name: str, value: str, says: str) -> None:
    (finding,) = _bad(replace(SOUND, threads=Threads({"OMP_NUM_THREADS": "4", name: value}, True)))
    assert name in finding.what
    assert says in finding.what
    assert finding.remedy


def test_the_setting_for_int8_lstm_layers_is_not_to_be_unset_for_them() -> None:
    setting = {"OMP_NUM_THREADS": "4", VARIABLE: WITHOUT_VNNI}
    (finding,) = _bad(replace(SOUND, threads=Threads(setting, True)))
    assert "without VNNI" in finding.what
    assert finding.remedy.startswith("keep it for networks with LSTM layers")


@pytest.mark.parametrize(
    ("name", "value"),
    [("MXNET_MKLDNN_ENABLED", "1"), ("DNNL_VERBOSE", "0"), ("KMP_DUPLICATE_LIB_OK", "1"), ("OMP_PROC_BIND", "close")],
)
def test_harmless_variables(name: str, value: str) -> None:
    assert _bad(replace(SOUND, threads=Threads({"OMP_NUM_THREADS": "4", name: value}, True))) == []


def test_affinity_of_intels_openmp_counts_where_that_is_preloaded() -> None:
    environment = {"OMP_NUM_THREADS": "4", "KMP_AFFINITY": "compact", "LD_PRELOAD": "/usr/lib/libiomp5.so"}
    assert _bad(replace(SOUND, threads=Threads(environment, True))) == []


def test_the_report_is_json() -> None:
    report = report_on(replace(SOUND, gluoncv=None))
    read = json.loads(json.dumps(report.as_dict()))
    assert read["worst"] == report.worst == "warn"
    assert read["recommended_threads"] == 4
    assert read["facts"]["cpu"]["model"] == "Xeon"
    assert {"topic", "level", "what", "remedy"} == set(read["findings"][0])
    assert report_on(SOUND).worst == "ok"
    assert report_on(replace(SOUND, numpy="2.0.0", gluoncv=None)).worst == "fail"


def test_this_machine_can_be_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_MKLDNN_ENABLED", "0")

    def engine() -> EngineBuild:
        monkeypatch.delenv("MXNET_MKLDNN_ENABLED")  # as importing mxnet does
        return ONEDNN

    report = examine(engine, {"openvino": "2026.4.1"})
    assert report.facts.engine == ONEDNN
    assert any(finding.what.startswith("openvino 2026.4.1") for finding in report.findings)
    assert any("MXNET_MKLDNN_ENABLED" in finding.what for finding in report.findings)
    json.dumps(report.as_dict())
