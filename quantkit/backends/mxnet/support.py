"""Whether the installed engine can run INT8 networks on this processor."""

from __future__ import annotations

from functools import cache
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.host.cpu import read_cpu


@cache
def int8_obstacle() -> Optional[str]:
    """Why INT8 networks cannot run here, with the remedy; None if they can.

    In its AVX-512 INT8 convolutions, MKL-DNN 1.0 (in mxnet-mkl 1.5 and 1.6) queries the core topology
    in a way that only Intel's processors support; on others it ends the process.
    """
    mxnet = load_mxnet()
    old_engine = tuple(int(part) for part in mxnet.__version__.split(".")[:2]) < (1, 7)
    vendor = read_cpu().vendor
    if old_engine and _has_avx512() and vendor != "GenuineIntel":
        return (
            f"mxnet {mxnet.__version__} ends the process in INT8 convolutions on this processor "
            f"({vendor or 'unknown'} with AVX-512); make and run INT8 networks with quantkit[onednn] (mxnet 1.9.1) "
            "in another environment"
        )
    return None


def _has_avx512() -> bool:
    # NumPy queries the processor itself, so this also works under an emulator.
    return bool(np.core._multiarray_umath.__cpu_features__.get("AVX512_SKX"))  # type: ignore[attr-defined]
