"""What computes here: the versions and the instruction set that a network's output may depend on."""

from __future__ import annotations

import numpy as np

from quantkit.bundle.manifest import Engine
from quantkit.engine.compat import load_mxnet

# By NumPy's names, widest first. Without VNNI, INT8 products are added in 16 bits, where they can saturate.
_ISAS = {"AVX512_CLX": "avx512_vnni", "AVX512_SKX": "avx512", "AVX2": "avx2"}


def present_engine() -> Engine:
    """The engine and the processor of this process.

    Raises:
        EngineMissing: no engine is installed.
    """
    # NumPy asks the processor itself, so this holds under an emulator too.
    features = np.core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    isa = next((isa for feature, isa in _ISAS.items() if features.get(feature)), "sse")
    return Engine(str(load_mxnet().__version__), np.__version__, isa)
