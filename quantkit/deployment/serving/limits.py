"""What the requests of a server may take."""

from __future__ import annotations

from dataclasses import dataclass

from quantkit.errors import UserError
from quantkit.files.text import MEBIBYTE

_LONGEST = 3600.0


@dataclass(frozen=True)
class Limits:
    """What requests may take.

    Attributes:
        body: bytes of one.
        json: bytes of the JSON of one, which takes many times as many while it is read.
        memory: bytes of all that are being served: their bodies, and what networks read and put out for them.
        pixels: of all images in one together, as they are and as they are scaled to.
        seconds: from its arrival to its answer.
        requests: at a time; further ones are refused.
        connections: at a time; the one that has waited longest for a request makes room for another.
        head_seconds: until the head of a request is there, and between two looks whether a client reads its answer.
    """

    body: int = 32 * MEBIBYTE
    json: int = 8 * MEBIBYTE
    memory: int = 1024 * MEBIBYTE
    pixels: int = 50_000_000
    seconds: float = 30.0
    requests: int = 64
    connections: int = 1024
    head_seconds: float = 10.0

    def __post_init__(self) -> None:
        """Check the values that users give.

        Raises:
            UserError: one cannot be used.
        """
        if self.seconds > _LONGEST:
            raise UserError(f"a request may take {self.seconds:g} s; allow at most {_LONGEST:g}")
        if 2 * self.body > self.memory:
            raise UserError(f"a request may have {self.body} bytes; allow at most {self.memory // 2}")
