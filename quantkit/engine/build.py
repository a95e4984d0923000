"""Which engine is installed and whether it can run INT8 here, found without raising where there is none."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from functools import lru_cache

from quantkit.engine.compat import REMEDY, load_mxnet, operator_names
from quantkit.engine.subprocesses import environment
from quantkit.errors import EngineMissing
from quantkit.host.cpu import Cpu, read_cpu
from quantkit.host.facts import EngineBuild

_NUMPY_REMEDY = "pip install 'numpy<2'"


@lru_cache(maxsize=None)
def installed() -> EngineBuild:
    """Describe the installed mxnet; ``problem`` says why it cannot be used and ``remedy`` what to install."""
    distribution, version = _distribution()
    try:
        mxnet = load_mxnet()
    except EngineMissing as error:
        message = str(error)
        what = message[: -len(REMEDY)].rstrip("; ") if message.endswith(REMEDY) else message
        return EngineBuild(distribution, version, problem=what, remedy=REMEDY)
    except AttributeError as error:  # mxnet asks NumPy for names that NumPy 2 has removed
        problem = f"{distribution} {version} cannot be imported: {error}"
        return EngineBuild(distribution, version, problem=problem, remedy=_NUMPY_REMEDY)
    version = str(mxnet.__version__)
    return EngineBuild(
        distribution,
        version,
        features=tuple(sorted(name for name, feature in mxnet.runtime.Features().items() if feature.enabled)),
        int8_operators=tuple(
            sorted(name for name in operator_names(mxnet) if name.startswith(("_contrib_quantized_", "_sg_mkldnn_")))
        ),
        exits_on_int8=_suspected(version, read_cpu()) and not _survives_int8(),
    )


def check_int8() -> None:
    """Make sure that INT8 convolutions can be run; call it before the first one.

    Raises:
        EngineMissing: there is no engine, or its INT8 convolutions would end this process.
    """
    engine = installed()
    if engine.problem:
        raise EngineMissing(f"{engine.problem}; {engine.remedy}")
    if engine.exits_on_int8:
        raise EngineMissing(
            f"{engine.distribution} {engine.version} ends the process at the first INT8 convolution on AVX512 processors "
            "that are not Intel's, such as this one; use the other engine: pip install 'quantkit[onednn]' in a new "
            "virtual environment"
        )


def _suspected(version: str, cpu: Cpu) -> bool:
    """Whether this is MKL-DNN 1.0.4 on an AVX512 processor that is not Intel's.

    It asks Xbyak for the number of cores when it chooses among its AVX512 INT8 convolutions; the Xbyak inside
    knows that number for Intel's processors only and calls ``exit`` on all others.
    """
    return version.startswith("1.6.") and "AVX512" in cpu.isa and cpu.vendor != "GenuineIntel"


def _survives_int8() -> bool:
    command = [sys.executable, "-m", "quantkit.engine.int8_probe"]
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    return done.returncode == 0


def _distribution() -> tuple[str, str]:
    """The name and version of the installed wheel that provides the ``mxnet`` module; empty where there is none."""
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"] or ""
        if name == "mxnet" or name.startswith("mxnet-"):
            return name, found.version
    return "", ""
