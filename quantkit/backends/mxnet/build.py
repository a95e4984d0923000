"""The installed MXNet build and whether it can run INT8 here, without raising if there is none."""

from __future__ import annotations

import importlib.metadata
from functools import cache

from quantkit.backends.mxnet.compat import REMEDY, load_mxnet, operator_names
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.errors import EngineMissing
from quantkit.host.facts import EngineBuild

_NUMPY_REMEDY = "pip install 'numpy<2'"


@cache
def installed() -> EngineBuild:
    """Describe the installed mxnet; ``problem`` says why it cannot be used and ``remedy`` what to install."""
    distribution, version = _distribution()
    try:
        mxnet = load_mxnet()
    except EngineMissing as error:
        message = str(error)
        what = message[: -len(REMEDY)].rstrip("; ") if message.endswith(REMEDY) else message
        return EngineBuild(distribution, version, problem=what, remedy=REMEDY)
    except AttributeError as error:  # mxnet uses names that NumPy 2 has removed
        problem = f"{distribution} {version} cannot be imported: {error}"
        return EngineBuild(distribution, version, problem=problem, remedy=_NUMPY_REMEDY)
    return EngineBuild(
        distribution,
        str(mxnet.__version__),
        features=tuple(sorted(name for name, feature in mxnet.runtime.Features().items() if feature.enabled)),
        int8_operators=tuple(
            sorted(name for name in operator_names(mxnet) if name.startswith(("_contrib_quantized_", "_sg_mkldnn_")))
        ),
        int8_obstacle=int8_obstacle() or "",
    )


def check_int8() -> None:
    """Check that INT8 networks can run; call it before the first one.

    Raises:
        EngineMissing: there is no engine, or its INT8 convolutions would end this process.
    """
    engine = installed()
    if engine.problem:
        raise EngineMissing(f"{engine.problem}; {engine.remedy}")
    if engine.int8_obstacle:
        raise EngineMissing(engine.int8_obstacle)


def _distribution() -> tuple[str, str]:
    """The name and version of the installed wheel that provides the ``mxnet`` module; empty if there is none."""
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name == "mxnet" or name.startswith("mxnet-"):
            return name, distribution.version
    return "", ""
