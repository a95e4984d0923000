"""The engine of this environment: the versions and the instruction set that a network's output may depend on."""

from __future__ import annotations

import os

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.instructions import LIMITS, VARIABLE, WITHOUT_VNNI, does_without_vnni
from quantkit.bundle.manifest import Engine
from quantkit.host.cpu import read_cpu

# NumPy's and oneDNN's names, widest first. Without VNNI, INT8 products are added in 16 bits and can saturate.
_ISAS = (("AVX512_CLX", "avx512_vnni"), ("AVX512_SKX", "avx512_core"), ("AVX2", "avx2"), ("SSE41", "sse41"))
_WIDEST_FIRST = ("avx512_vnni", "avx512_core", "avx2_vnni", "avx2", "sse41")


def present_engine() -> Engine:
    """The engine with the processor's instruction set, or the narrower one that oneDNN is limited to.

    Raises:
        EngineMissing: no engine is installed.
    """
    # NumPy asks the processor itself, so this is right under an emulator too.
    features = np.core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    isa = next((isa for feature, isa in _ISAS if features.get(feature)), "sse41")
    allowed = LIMITS.get(os.environ.get(VARIABLE) or (WITHOUT_VNNI if does_without_vnni() else ""), isa)
    if allowed == "avx2_vnni" and "AVX-VNNI" not in read_cpu().isa:
        allowed = "avx2"
    isa = max(isa, allowed, key=_WIDEST_FIRST.index)
    return Engine(str(load_mxnet().__version__), np.__version__, isa)
