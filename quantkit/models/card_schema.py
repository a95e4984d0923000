"""The schema of a model card's TOML: its keys and the values they may have."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Optional, Union
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from quantkit.data.boxes import BoxCorners
from quantkit.data.preprocess import Fit
from quantkit.models.families import Task
from quantkit.models.layout import SequenceLayout

# MXNet's extents have 31 bits.
_Positive = Annotated[int, Field(gt=0, lt=1 << 31)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PreprocessTable(_Table):
    """``[preprocess]``: see ``Preprocess`` for the meaning and the units."""

    resize: Optional[_Positive] = None
    crop: Optional[_Positive] = None
    mean: Annotated[list[_Finite], Field(min_length=3, max_length=3)]
    std: Annotated[list[_PositiveFloat], Field(min_length=3, max_length=3)]
    scale: _PositiveFloat = 255.0
    rotate180: bool = False
    fit: Optional[Fit] = None

    @model_validator(mode="after")
    def _one_way_to_scale(self) -> PreprocessTable:
        if self.fit is not None and (self.resize is not None or self.crop is not None):
            raise ValueError("give either fit, or resize and crop")
        return self


_Percent = Annotated[float, Field(ge=0, le=100)]


class AccuracyTable(_Table):
    """``[accuracy]``: percentages, the perplexity of a language model, and their origin."""

    top1: Optional[_Percent] = None
    top5: Optional[_Percent] = None
    map: Optional[_Percent] = None
    ap: Optional[_Percent] = None
    miou: Optional[_Percent] = None
    perplexity: Optional[Annotated[float, Field(ge=1, allow_inf_nan=False)]] = None
    origin: _Name

    @model_validator(mode="after")
    def _has_a_figure(self) -> AccuracyTable:
        if (self.top1, self.map, self.ap, self.miou) == (None, None, None, None):
            raise ValueError("give top1, map, ap or miou")
        if self.top1 is None and (self.top5, self.perplexity) != (None, None):
            raise ValueError("top5 and perplexity go with top1")
        return self


class SourceTable(_Table):
    """``[[sources]]``: one source of trained weights."""

    kind: Literal["gluoncv", "huggingface", "url", "file"]
    location: Annotated[str, Field(min_length=1, max_length=1000)]
    revision: Optional[Annotated[str, Field(pattern="^[0-9a-f]{40}$")]] = None
    size: Optional[Annotated[int, Field(gt=0)]] = None
    sha256: Optional[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = None
    sha1: Optional[Annotated[str, Field(pattern="^[0-9a-f]{40}$")]] = None
    preprocess: Optional[PreprocessTable] = None

    @model_validator(mode="after")
    def _sound_location(self) -> SourceTable:
        parts = self.location.split("/")
        if self.revision is not None and self.kind != "huggingface":
            raise ValueError("only huggingface sources have a revision")
        if self.kind == "url":
            self._check_address()
        # The cache names its folders and files by these; they must not lead out of it.
        if self.kind in ("gluoncv", "huggingface") and not all(map(_is_file_name, parts)):
            raise ValueError(f"location {self.location!r} is not a name")
        if self.kind == "gluoncv" and len(parts) != 1:
            raise ValueError("location of a gluoncv source is a file's name, such as resnet50_v1-cc729d95")
        if self.kind == "huggingface" and len(parts) < 3:
            raise ValueError("location of a huggingface source is owner/repository/file")
        return self

    def _check_address(self) -> None:
        address = urlsplit(self.location)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError("location of a url starts with http:// or https:// and a host")
        if "@" in address.netloc:
            raise ValueError("location of a url must not hold a user name or password: bundles and reports record it")
        if not self.location.isprintable() or not _is_file_name(address.path.rsplit("/", 1)[-1]):
            raise ValueError("location of a url ends in the name of a file, such as net.safetensors")


def _is_file_name(text: str) -> bool:
    return re.fullmatch(r"[\w.+%~-]{1,200}", text, re.ASCII) is not None and text not in (".", "..")


class CardTable(_Table):
    """A whole card."""

    name: _Name
    network: Optional[_Name] = None
    task: Task = "classification"
    box_corners: Optional[BoxCorners] = None
    family: Optional[_Name] = None
    symbol: Optional[_Name] = None
    params: Optional[_Name] = None
    aliases: list[_Name] = []
    description: str = ""
    input_shape: Annotated[list[_Positive], Field(min_length=1, max_length=4)]
    layout: Optional[SequenceLayout] = None
    classes: _Positive
    labels: Union[_Name, list[str], None] = None
    exclude: list[_Name] = []
    preprocess: Optional[PreprocessTable] = None
    accuracy: Optional[AccuracyTable] = None
    sources: list[SourceTable] = []

    @model_validator(mode="after")
    def _one_network(self) -> CardTable:
        if (self.network is None) == (self.symbol is None):
            raise ValueError("give either network (a GluonCV name) or symbol (a file), not both")
        if isinstance(self.labels, list) and len(self.labels) != self.classes:
            raise ValueError(f"labels has {len(self.labels)} names for {self.classes} classes")
        if self.preprocess is not None and len(self.input_shape) != 3:
            raise ValueError("preprocess is for images; input_shape must be their channels, height and width")
        if self.layout is not None and len(self.layout) != len(self.input_shape) + 1:
            raise ValueError(f"layout {self.layout} does not fit input_shape, which is without the batch")
        if self.params is not None and self.sources:
            raise ValueError("give either params (a file) or sources, not both")
        return self
