"""The types of options: text on the command line becomes a value, or an error that shows how to write it."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Optional, Union

import click

SIDE = click.IntRange(min=1, max=(1 << 31) - 1)
"""A number of pixels."""

TASK = click.Choice(
    ["classification", "detection", "segmentation", "pose", "action", "depth", "tracking", "embedding", "language"]
)
"""What a network is for: one of ``models.families.Task``."""

PREDICTION = click.Choice(["classification", "detection", "segmentation", "pose"])
"""What is predicted of an image: one of ``TaskName``, or classification."""


def listed(text: Optional[str]) -> list[str]:
    """The distinct entries of a comma-separated list, in order."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


class Shape(click.ParamType):
    """``3,224,224``: channels, height, width of images; ``1000``: the length of vectors; ``35,200``: sequences."""

    name = "C,H,W"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> tuple[int, ...]:
        """The numbers."""
        if isinstance(value, tuple):
            return value
        fields = [field.strip() for field in value.replace("x", ",").split(",")]
        if len(fields) > 4 or not all(re.fullmatch(r"0*[1-9]\d{0,8}", field, re.ASCII) for field in fields):
            self.fail(f"{value!r} is no shape of one input, such as 3,224,224 or 1000", param, ctx)
        return tuple(int(field) for field in fields)


class InputShape(Shape):
    """A shape, or ``left=3,32,32``: that of one of several inputs, with its name."""

    name = "[NAME=]C,H,W"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        """The numbers with the name, which is empty if there is none."""
        if isinstance(value, tuple):
            return value
        name, _, shape = value.rpartition("=")
        return name, super().convert(shape, param, ctx)


def one_or_by_name(
    ctx: click.Context, param: click.Parameter, given: tuple[tuple[str, tuple[int, ...]], ...]
) -> Union[tuple[int, ...], dict[str, tuple[int, ...]], None]:
    """One shape, or several by their names; None if there is none."""
    if not given:
        return None
    named = dict(given)
    if len(given) == 1 and "" in named:
        return named[""]
    if "" in named or len(named) < len(given):
        raise click.BadParameter(
            "give one shape, or one for each input with a name of its own, such as left=3,32,32", ctx, param
        )
    return named


class Number(click.ParamType):
    """A finite number; with ``above_zero``, a positive one."""

    name = "NUMBER"

    def __init__(self, above_zero: bool = False) -> None:
        self.above_zero = above_zero

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The number."""
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not isfinite(number) or (self.above_zero and number <= 0):
            kind = "a finite number above zero" if self.above_zero else "a finite number"
            self.fail(f"{value!r} is not {kind}", param, ctx)
        return number


class Channels(click.ParamType):
    """``0.485,0.456,0.406``: one number for each of red, green and blue, or ``0.5`` for all of them."""

    name = "R,G,B"

    def __init__(self, above_zero: bool = False) -> None:
        self.number = Number(above_zero)

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> tuple[float, ...]:
        """The three numbers."""
        if isinstance(value, tuple):
            return value
        fields = value.split(",")
        if len(fields) not in (1, 3):
            self.fail(f"{value!r} is not a number for each of red, green and blue, such as 0.5,0.5,0.5", param, ctx)
        numbers = tuple(self.number.convert(field, param, ctx) for field in fields)
        return numbers * 3 if len(numbers) == 1 else numbers


class Batches(click.ParamType):
    """``1,16,64``: batch sizes."""

    name = "N[,N...]"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> tuple[int, ...]:
        """The numbers."""
        if isinstance(value, tuple):
            return value
        if not all(re.fullmatch(r"0*[1-9]\d{0,8}", part, re.ASCII) for part in listed(value) or [""]):
            self.fail(f"{value!r} is not a list of batch sizes, such as 1,16,64", param, ctx)
        return tuple(dict.fromkeys(int(part) for part in listed(value)))


class Minutes(click.ParamType):
    """A finite number of minutes above zero."""

    name = "MINUTES"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The number."""
        try:
            minutes = float(value)
        except ValueError:
            minutes = 0.0
        if not 0 < minutes < float("inf"):
            self.fail(f"{value!r} is not a number of minutes above zero", param, ctx)
        return minutes


class Milliseconds(click.ParamType):
    """``15ms``, ``15`` or ``0.1s``."""

    name = "TIME"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The time in milliseconds."""
        text, factor = str(value).strip(), 1.0
        if text.endswith("ms"):
            text = text[:-2]
        elif text.endswith("s"):
            text, factor = text[:-1], 1000.0
        try:
            milliseconds = float(text) * factor
        except ValueError:
            milliseconds = 0.0
        if not 0 < milliseconds < float("inf"):
            self.fail(f"{value!r} is not a time such as 15ms", param, ctx)
        return milliseconds


class Rate(click.ParamType):
    """``200/s`` or ``200``."""

    name = "RATE"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The number per second."""
        try:
            rate = float(str(value).strip().removesuffix("/s"))
        except ValueError:
            rate = 0.0
        if not 0 < rate < float("inf"):
            self.fail(f"{value!r} is not a rate such as 200/s", param, ctx)
        return rate


class Memory(click.ParamType):
    """``4GB``, ``512MB``, or with binary units ``4GiB``."""

    name = "SIZE"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> int:
        """The bytes."""
        units = {"MB": 10**6, "GB": 10**9, "MIB": 1 << 20, "GIB": 1 << 30}
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([MG]i?B)", str(value).strip(), re.ASCII | re.IGNORECASE)
        size = int(float(found[1]) * units[found[2].upper()]) if found else 0
        if not size:
            self.fail(f"{value!r} is not a size such as 4GB or 512MB", param, ctx)
        return size


class Share(click.ParamType):
    """``99%`` or ``0.99``."""

    name = "SHARE"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """The share, from 0 to 1."""
        text, whole = str(value).strip(), 1.0
        if text.endswith("%"):
            text, whole = text[:-1].strip(), 100.0
        share = float(text) / whole if re.fullmatch(r"\d{1,3}(?:\.\d{1,9})?", text, re.ASCII) else -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share such as 99%", param, ctx)
        return share
