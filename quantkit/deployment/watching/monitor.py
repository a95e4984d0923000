"""What is watched of a deployment, as its user asks for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional, Union

from quantkit.errors import UserError
from quantkit.kinds import of_kind, whole_number

SHADOW = 1000
"""Of so many samples one is run in FP32, too, if nothing else is said."""


@dataclass(frozen=True)
class Monitor:
    """What is watched of a deployment: what its network reads and puts out. ``Predictor.step`` is not.

    Attributes:
        share: the largest fraction of the time, above 0 and up to 1, that watching takes, with what it delays; at 1,
            one sample of every batch is watched.
        reference: the folder of the same network's fused FP32 bundle, for ``shadow`` and ``fp32_below``; None: FP32 is
            never run.
        shadow: of so many samples a random one is run in FP32, too, and both answers are compared; 0: none is; None:
            of 1000, if there is a reference; ``output.agreement`` drifts if they agree less than when the network was
            quantized. With a reference, pixels become float32 before INT8 reads them.
        fp32_below: samples are answered in FP32 if the margin, the probability of the best class less that of the
            second, is smaller than this, from 0 to 1; 0: none are. After a sigmoid it is that of the two scores.
        events: the file to append events to, as lines of JSON; ``quantkit watch`` reads it. None: they are in the log.

    Raises:
        UserError: a value is of another kind or out of range, or ``reference`` is missing.
    """

    share: float = 0.005
    reference: Union[str, os.PathLike[str], None] = None
    shadow: Optional[int] = None
    fp32_below: float = 0.0
    events: Union[str, os.PathLike[str], None] = None

    def __post_init__(self) -> None:
        """Check the values."""
        _check_share("share", self.share)
        if not self.share:
            raise UserError("share is 0, so nothing would be watched; give a part of the time, such as 0.005")
        _check_share("fp32_below", self.fp32_below)
        if self.shadow is not None:
            whole_number("shadow", self.shadow, 0, SHADOW)
        for name in ("reference", "events"):
            value = getattr(self, name)
            if value is not None:
                _check_path(name, value)
        for name in ("shadow", "fp32_below"):
            if getattr(self, name) and self.reference is None:
                raise UserError(f"{name} needs the network in FP32; give its fused bundle as reference (--reference)")


def shadowed_every(monitor: Monitor) -> int:
    """Of so many samples one is compared with FP32; 0: none is."""
    if monitor.reference is None:
        return 0
    return SHADOW if monitor.shadow is None else monitor.shadow


def _check_path(name: str, value: object) -> None:
    if not isinstance(value, (str, os.PathLike)):
        raise UserError(f"{name} is of type {type(value).__name__}; give a path")


def _check_share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserError(f"{name} is {value!r}; give a number from 0 to 1")


def wanted_monitor(monitor: Union[bool, Monitor]) -> Optional[Monitor]:
    """What is watched; None: nothing.

    Raises:
        UserError: it is neither a monitor nor yes or no.
    """
    if isinstance(monitor, bool):
        return Monitor() if monitor else None
    of_kind("monitor", monitor, Monitor, "or True, or False")
    return monitor
