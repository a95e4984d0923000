"""Which engine is installed, found without raising where there is none."""

from __future__ import annotations

import importlib.metadata

from quantkit.engine.compat import REMEDY, load_mxnet, operator_names
from quantkit.errors import EngineMissing
from quantkit.host.facts import EngineBuild


_NUMPY_REMEDY = "pip install 'numpy<2'"


def installed() -> EngineBuild:
    """Describe the installed mxnet; ``problem`` says why it cannot be used and ``remedy`` what to install."""
    distribution, version = _distribution()
    try:
        mxnet = load_mxnet()
    except EngineMissing as error:
        message = str(error)
        what = message[: -len(REMEDY)].rstrip("; ") if message.endswith(REMEDY) else message
        return EngineBuild(distribution, version, (), (), what, REMEDY)
    except AttributeError as error:  # mxnet asks NumPy for names that NumPy 2 has removed
        return EngineBuild(distribution, version, (), (), f"mxnet {version} cannot be imported: {error}", _NUMPY_REMEDY)
    features = sorted(name for name, feature in mxnet.runtime.Features().items() if feature.enabled)
    operators = sorted(name for name in operator_names(mxnet) if name.startswith(("_contrib_quantized_", "_sg_mkldnn_")))
    return EngineBuild(distribution, str(mxnet.__version__), tuple(features), tuple(operators))


def _distribution() -> tuple[str, str]:
    """The name and version of the installed wheel that provides the ``mxnet`` module; empty where there is none."""
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"] or ""
        if name == "mxnet" or name.startswith("mxnet-"):
            return name, found.version
    return "", ""
