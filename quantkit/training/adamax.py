"""AdaMax as MXNet has it, for parameters without a gradient, too."""

from __future__ import annotations

from functools import cache
from typing import Any

from quantkit.backends.mxnet.compat import load_mxnet

# Of the norm of gradients; what is divided by it is 0 where they are smaller.
_SMALLEST = 1e-30


@cache
def registered_adamax() -> str:
    """The name under which Gluon's trainer finds it.

    MXNet divides by the largest gradient so far (Kingma and Ba 2015, section 7.1), and so makes NaN of parameters whose
    gradients have all been 0.
    """
    mxnet = load_mxnet()

    base: Any = mxnet.optimizer.Adamax

    class GuardedAdamax(base):  # type: ignore[misc]
        """AdaMax with a norm above 0."""

        def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
            """See ``mxnet.optimizer.Optimizer``."""
            norm = state[1]
            norm[:] = mxnet.nd.maximum(norm, _SMALLEST)
            super().update(index, weight, grad, state)

    mxnet.optimizer.Optimizer.register(GuardedAdamax)
    name: str = GuardedAdamax.__name__
    return name.lower()
