"""What computes here, by what the processor can and what oneDNN is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.bundle import engine
from quantkit.bundle.engine import present_engine
from quantkit.host.cpu import read_cpu

pytestmark = pytest.mark.usefixtures("engine")

FEATURES = ("AVX512_CLX", "AVX512_SKX", "AVX2", "SSE41")
ISAS = ("avx512_vnni", "avx512_core", "avx2", "sse41")


def processor(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    """One that lacks so many of the instruction sets, the widest first."""
    features = {name: place >= missing for place, name in enumerate(FEATURES)}
    monkeypatch.setattr("numpy.core._multiarray_umath.__cpu_features__", {**features, "SSE": True})
    # Networks with LSTM layers that ran in this process before may have ruled it out.
    monkeypatch.setattr(engine, "does_without_vnni", lambda: False)


def test_versions_are_those_that_are_installed() -> None:
    assert (present_engine().mxnet, present_engine().numpy) == (load_mxnet().__version__, np.__version__)


@pytest.mark.parametrize(("missing", "isa"), [*enumerate(ISAS), (4, "sse41")])
def test_the_widest_instruction_set_counts(monkeypatch: pytest.MonkeyPatch, missing: int, isa: str) -> None:
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    processor(monkeypatch, missing)
    assert present_engine().isa == isa


def test_a_process_without_vnni_has_the_next_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    processor(monkeypatch, 0)
    monkeypatch.setattr(engine, "does_without_vnni", lambda: True)
    assert present_engine().isa == "avx512_core"


@pytest.mark.parametrize("missing", range(4))
@pytest.mark.parametrize("allowed", range(4))
def test_onednn_can_be_told_to_use_a_narrower_one(monkeypatch: pytest.MonkeyPatch, missing: int, allowed: int) -> None:
    processor(monkeypatch, missing)
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", ISAS[allowed].upper())
    assert present_engine().isa == ISAS[max(missing, allowed)]


@pytest.mark.parametrize("has_vnni", [False, True])
def test_vnni_of_avx2_counts_where_the_processor_has_it(monkeypatch: pytest.MonkeyPatch, has_vnni: bool) -> None:
    processor(monkeypatch, 0)
    monkeypatch.setattr(engine, "read_cpu", lambda: replace(read_cpu(), isa=("AVX2", "AVX-VNNI")[: 1 + has_vnni]))
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2_VNNI")
    assert present_engine().isa == ("avx2_vnni" if has_vnni else "avx2")


@pytest.mark.parametrize(("told", "isa"), [("AVX512_MIC", "avx2"), ("AVX", "sse41")])
def test_what_has_no_int8_kernels_counts_as_the_next_below(
    monkeypatch: pytest.MonkeyPatch, told: str, isa: str
) -> None:
    processor(monkeypatch, 0)
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", told)
    assert present_engine().isa == isa


# oneDNN minds the case.
@pytest.mark.parametrize("told", ["", "ALL", "avx512_core_amx", "avx2"])
def test_what_names_none_of_them_changes_nothing(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    processor(monkeypatch, 1)
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", told)
    assert present_engine().isa == "avx512_core"
