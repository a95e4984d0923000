"""The engine of this environment: the versions and the instruction set that a network's output may depend on."""

from __future__ import annotations

import os

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.instructions import does_without_vnni
from quantkit.bundle.manifest import Engine

# NumPy's and oneDNN's names, widest first. Without VNNI, INT8 products are added in 16 bits and can saturate.
_ISAS = (("AVX512_CLX", "avx512_vnni"), ("AVX512_SKX", "avx512_core"), ("AVX2", "avx2"), ("SSE41", "sse41"))


def present_engine() -> Engine:
    """The engine with the processor's instruction set, or the narrower one that oneDNN is limited to.

    Raises:
        EngineMissing: no engine is installed.
    """
    # NumPy asks the processor itself, so this is right under an emulator too.
    features = np.core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    names = [isa for _, isa in _ISAS]
    isa = next((isa for feature, isa in _ISAS if features.get(feature)), names[-1])
    allowed = os.environ.get("DNNL_MAX_CPU_ISA", "avx512_core" if does_without_vnni() else "").lower()
    if allowed in names:
        isa = names[max(names.index(isa), names.index(allowed))]
    return Engine(str(load_mxnet().__version__), np.__version__, isa)
