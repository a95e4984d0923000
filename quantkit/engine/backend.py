"""MXNet as one of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from quantkit.backends.base import Backend, Shape
from quantkit.engine.compat import load_mxnet
from quantkit.engine.execute import Executor
from quantkit.engine.support import int8_obstacle
from quantkit.graph.graph import Graph


class MxnetBackend(Backend[Graph]):
    """MXNet with its own fusion off: it runs a network as it stands."""

    def version(self) -> str:
        """See ``Backend``."""
        return str(load_mxnet().__version__)

    def int8_obstacle(self) -> Optional[str]:
        """See ``Backend``."""
        return int8_obstacle()

    def open_session(self, network: Graph, shapes: Optional[Mapping[str, Shape]] = None) -> Executor:
        """Load a network; see ``Backend``."""
        return Executor(network, shapes)
