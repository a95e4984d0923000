"""The schema of a model card's TOML: which keys there are and which values they may have."""

from __future__ import annotations

from typing import Annotated, List, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Python 3.9 evaluates these annotations, so they are spelt as it knows them.
_Positive = Annotated[int, Field(gt=0)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PreprocessTable(_Table):
    """``[preprocess]``: see ``Preprocess`` for the meaning and the units."""

    resize: Optional[_Positive] = None
    crop: Optional[_Positive] = None
    mean: Annotated[List[_Finite], Field(min_length=3, max_length=3)]
    std: Annotated[List[_PositiveFloat], Field(min_length=3, max_length=3)]
    scale: _PositiveFloat = 255.0
    rotate180: bool = False


class AccuracyTable(_Table):
    """``[accuracy]``: percentages and their origin."""

    top1: Annotated[float, Field(ge=0, le=100)]
    top5: Optional[Annotated[float, Field(ge=0, le=100)]] = None
    origin: _Name


class SourceTable(_Table):
    """``[[sources]]``: one source of trained weights."""

    kind: Literal["gluoncv", "huggingface", "url", "file"]
    location: _Name
    sha256: Optional[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = None
    sha1: Optional[Annotated[str, Field(pattern="^[0-9a-f]{40}$")]] = None
    layout: Literal["mxnet", "torch"] = "mxnet"
    preprocess: Optional[PreprocessTable] = None


class CardTable(_Table):
    """A whole card."""

    name: _Name
    network: Optional[_Name] = None
    symbol: Optional[_Name] = None
    params: Optional[_Name] = None
    aliases: List[_Name] = []
    description: str = ""
    input_shape: Annotated[List[_Positive], Field(min_length=3, max_length=3)]
    classes: _Positive
    labels: Union[_Name, List[str], None] = None
    exclude: List[_Name] = []
    preprocess: Optional[PreprocessTable] = None
    accuracy: Optional[AccuracyTable] = None
    sources: List[SourceTable] = []

    @model_validator(mode="after")
    def _one_network(self) -> CardTable:
        if (self.network is None) == (self.symbol is None):
            raise ValueError("give either network (a GluonCV name) or symbol (a file), not both")
        if isinstance(self.labels, list) and len(self.labels) != self.classes:
            raise ValueError(f"labels has {len(self.labels)} names for {self.classes} classes")
        if self.params is not None and self.sources:
            raise ValueError("give either params (a file) or sources, not both")
        return self
