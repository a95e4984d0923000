"""What is said of the installed engine, and of engines that are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quantkit.backends.mxnet import build
from quantkit.errors import EngineMissing


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


def test_the_check_for_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "int8_obstacle", lambda: None)
    build.check_int8()
    build.installed.cache_clear()
    monkeypatch.setattr(build, "int8_obstacle", lambda: "it ends the process; use the other engine")
    with pytest.raises(EngineMissing, match="use the other engine"):
        build.check_int8()


def test_a_missing_engine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EngineMissing(f"no usable mxnet in this environment (No module named 'mxnet'); {build.REMEDY}")

    monkeypatch.setattr(build, "load_mxnet", missing)
    engine = build.installed()
    assert engine.problem.endswith("(No module named 'mxnet')")
    assert "'quantkit[onednn]'" in engine.remedy
    assert "'quantkit[mkl]'" in engine.remedy
    with pytest.raises(EngineMissing, match=r"No module.*quantkit\[mkl\]"):
        build.check_int8()


def test_an_engine_that_numpy_2_breaks_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise AttributeError("module 'numpy' has no attribute 'PZERO'")

    monkeypatch.setattr(build, "load_mxnet", broken)
    assert "PZERO" in build.installed().problem
    assert "numpy<2" in build.installed().remedy
