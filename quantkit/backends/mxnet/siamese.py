"""GluonCV's tracker as a symbol of one input: SiamRPN, for batches of any size.

GluonCV's own reads two images, and correlates one pair at a time with a convolution whose weights are computed.
"""

from __future__ import annotations

from itertools import product
from typing import Any

SURROUNDINGS = 287
TARGET = 127
"""Sides of the two images: where the target is sought, and the target, as GluonCV's tracker crops them."""


def tracked(block: Any, F: Any, x: Any) -> Any:  # noqa: N803 (Gluon's name)
    """Li et al. 2018, "High Performance Visual Tracking with Siamese Region Proposal Network": scores and offsets.

    ``x`` holds both images beside each other: the surroundings, and to the right of them the target, from the top on.
    """
    surroundings = F.slice_axis(x, axis=3, begin=0, end=SURROUNDINGS)
    target = F.slice_axis(x, axis=3, begin=SURROUNDINGS, end=SURROUNDINGS + TARGET)
    target = F.slice_axis(target, axis=2, begin=0, end=TARGET)
    return block.rpn_head(block.backbone(target), block.backbone(surroundings))


def correlated(block: Any, F: Any, kernel: Any, search: Any) -> Any:  # noqa: N803
    """The head on the correlation of both maps, channel by channel and pair by pair."""
    kernel, search = block.conv_kernel(kernel), block.conv_search(search)
    *_, rows, columns = block.out_size
    products = (
        F.broadcast_mul(_window(F, search, row, column, rows, columns), _window(F, kernel, row, column, 1, 1))
        for row, column in product(*map(range, block.kernel_size[2:]))
    )
    return block.head(F.add_n(*products))


def _window(F: Any, x: Any, row: int, column: int, rows: int, columns: int) -> Any:  # noqa: N803
    cut = F.slice_axis(x, axis=2, begin=row, end=row + rows)
    return F.slice_axis(cut, axis=3, begin=column, end=column + columns)
