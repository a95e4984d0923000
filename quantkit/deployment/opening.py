"""Opens a bundle's network where it is to run: in this process, in streams of it, or in instances."""

from __future__ import annotations

from typing import Optional, Union

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.fastest import open_fastest
from quantkit.deployment.instances import Instances
from quantkit.deployment.network import AUTO, default_engine, known_engine, open_network
from quantkit.deployment.pool import Pool
from quantkit.deployment.runner import Runner, Turns
from quantkit.deployment.stream_pool import StreamPool
from quantkit.deployment.streams import Streams


def opened_runner(bundle: Bundle, engine: Optional[str], spread: Union[Instances, Streams, None]) -> Runner:
    """What runs a bundle's network.

    Args:
        bundle: the bundle.
        engine: as for ``Predictor``.
        spread: processes, or streams of this one; None: it runs in this process, once at a time.

    Raises:
        UserError: there is no such engine, it needs an ONNX file and the bundle holds none, there is no room for the
            instances, or the engine has no streams.
        QuantkitError: the network cannot run so.
    """
    if spread is None:
        if engine == AUTO:
            return Turns(open_fastest(bundle))
        return Turns(open_network(bundle, default_engine(bundle) if engine is None else engine))
    fastest = open_fastest(bundle).engine if engine == AUTO else engine
    chosen = default_engine(bundle) if fastest is None else known_engine(fastest)
    return Pool(bundle, chosen, spread) if isinstance(spread, Instances) else StreamPool(bundle, chosen, spread)
