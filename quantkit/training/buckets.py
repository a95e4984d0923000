"""Gradients that lie side by side, so that instances exchange few large messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quantkit.backends.mxnet.compat import load_mxnet

# Bytes: many small gradients. Larger ones would gain little, and wait for each other.
_LARGEST = 1_000_000


def gradient_buckets(params: Mapping[str, Any]) -> Sequence[Any]:
    """Let the gradients of Gluon parameters be computed into arrays that several share, since each exchange takes time.

    Returns float32 arrays of shape (numbers,), alike on all instances: gradients lie in the order of the names. One of
    more than 1 MB has an array of its own.

    Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", section 3.2.2.

    Args:
        params: initialized, float32, by name; the arrays of their gradients are replaced.
    """
    groups: list[list[Any]] = []
    room = 0
    for _, param in sorted(params.items()):
        size = param.data().size * 4
        if size > room:
            groups.append([])
            room = _LARGEST
        groups[-1].append(param)
        room -= size
    return [_side_by_side(group) for group in groups]


def _side_by_side(params: Sequence[Any]) -> Any:
    mxnet = load_mxnet()
    bucket = mxnet.nd.zeros(sum(param.data().size for param in params))
    begin = 0
    for param in params:
        end = begin + param.data().size
        # What `Parameter` does by itself, but for where the array lies.
        param._grad = [bucket[begin:end].reshape(param.shape)]
        mxnet.autograd.mark_variables(param.list_data(), param._grad, param.grad_req)
        begin = end
    return bucket


def trainer_through(
    add_up: Callable[[], None], params: Mapping[str, Any], optimizer: str, options: Mapping[str, Any]
) -> Any:
    """A Gluon ``Trainer`` that has ``add_up`` replace the gradients by their sums over all instances in each step."""
    base: Any = load_mxnet().gluon.Trainer

    class Trainer(base):  # type: ignore[misc]
        """Exchanges buckets."""

        def _allreduce_grads(self) -> None:
            add_up()

    return Trainer(dict(params), optimizer, dict(options), kvstore=None)
