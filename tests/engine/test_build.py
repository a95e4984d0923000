"""What is said of the installed engine, and of engines that are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quantkit.engine import build
from quantkit.errors import EngineMissing

TOPOLOGY = "processor : 0\nvendor_id : {vendor}\nmodel name : a processor\nflags : {flags}\n"
AVX512 = "avx2 fma avx512f avx512bw avx512vl avx512dq"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    build.installed.cache_clear()
    yield
    build.installed.cache_clear()


def test_the_installed_engine_can_do_int8() -> None:
    engine = build.installed()
    assert engine.problem == engine.remedy == ""
    assert engine.distribution in ("mxnet", "mxnet-mkl")
    assert {"_sg_mkldnn_conv", "_contrib_quantized_conv"} <= set(engine.int8_operators)
    assert "MKLDNN" in engine.features


def test_the_check_agrees_with_what_a_process_of_its_own_found() -> None:
    if build.installed().exits_on_int8:
        with pytest.raises(EngineMissing, match="onednn"):
            build.check_int8()
    else:
        build.check_int8()
    assert build.installed().exits_on_int8 == (not build._survives_int8())


@pytest.mark.parametrize(
    ("version", "vendor", "flags", "suspected"),
    [
        ("1.6.0", "AuthenticAMD", AVX512, True),
        ("1.6.0", "GenuineIntel", AVX512, False),
        ("1.6.0", "AuthenticAMD", "avx2 fma", False),
        ("1.9.1", "AuthenticAMD", AVX512, False),
    ],
)
def test_which_machines_are_suspected(tmp_path: Path, version: str, vendor: str, flags: str, suspected: bool) -> None:
    (tmp_path / "cpuinfo").write_text(TOPOLOGY.format(vendor=vendor, flags=flags))
    assert build._suspected(version, build.read_cpu(tmp_path, {0})) is suspected


def test_a_missing_engine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EngineMissing(f"no usable mxnet in this environment (No module named 'mxnet'); {build.REMEDY}")

    monkeypatch.setattr(build, "load_mxnet", missing)
    engine = build.installed()
    assert engine.problem.endswith("(No module named 'mxnet')")
    assert "quantkit[onednn]" in engine.remedy and "quantkit[mkl]" in engine.remedy
    with pytest.raises(EngineMissing, match=r"No module.*quantkit\[mkl\]"):
        build.check_int8()


def test_an_engine_that_numpy_2_breaks_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise AttributeError("module 'numpy' has no attribute 'PZERO'")

    monkeypatch.setattr(build, "load_mxnet", broken)
    assert "PZERO" in build.installed().problem
    assert "numpy<2" in build.installed().remedy
