"""MXNet as one of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from quantkit.backends.base import Backend, Shape
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.ir.graph import Graph


class MxnetBackend(Backend[Graph]):
    """MXNet with its own fusion off: it runs a network unchanged."""

    def version(self) -> str:
        """See ``Backend``."""
        return str(load_mxnet().__version__)

    def int8_obstacle(self) -> Optional[str]:
        """See ``Backend``."""
        return int8_obstacle()

    def open_session(self, network: Graph, shapes: Optional[Mapping[str, Shape]] = None) -> MxnetSession:
        """Load a network; see ``Backend``."""
        return MxnetSession(network, shapes)
