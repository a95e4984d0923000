"""Whether an INT8 network is worse than the one of the record, told from rounding by exact tests.

Machines add up in other orders, and so move images across a decision's edge, in one direction as often as in the
other. A worse network moves more of them one way. So of the images about which a network and the record's one do not
agree, those that are new on the wrong side are counted against those that are gone from it: McNemar's exact test, one
side. No size of the rounding is assumed.

Of networks that differ from FP32 often, rounding moves so many images that a point is lost among them. Their outputs
tell more: one less the cosine grows with the square of the error, and the share of changed predictions, as long as it
is small, with the error itself. So the loss of half a point, from a share d, lets one less the cosine grow by
((d + 0.005) / d)^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binomtest

# A network that is as good as the record's fails once in a thousand tests.
_SIGNIFICANCE = 0.001
_HALF_A_POINT = 0.005

Form = dict[str, Any]


def complaints(recorded: Form, found: Form, images: int) -> tuple[str, ...]:
    """In words, what a form of a network has lost against the record's one."""
    said = []
    for what, before, now in (
        ("predictions other than FP32's", set(recorded["differs"]), set(found["differs"])),
        ("labels missed", _positions(recorded["misses"]), _positions(found["misses"])),
    ):
        new, gone = len(now - before), len(before - now)
        if new and (chance := binomtest(new, new + gone, alternative="greater").pvalue) < _SIGNIFICANCE:
            said.append(
                f"{what}: {len(now)} of {images} where {len(before)} are recorded; {new} are new and {gone} gone, "
                f"which chance explains once in {1 / chance:.3g} times"
            )
    share = max(1, len(recorded["differs"])) / images
    limit = recorded["one_less_cosine"] * ((share + _HALF_A_POINT) / share) ** 2
    if not found["one_less_cosine"] <= limit:  # NaN is not
        said.append(f"one less the cosine is {found['one_less_cosine']:.3g}, above {limit:.3g}: half a point is lost")
    return tuple(said)


def _positions(bits: str) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(np.frombuffer(bytes.fromhex(bits), np.uint8))).tolist())
