"""Recipes: the calibration tables that ship with quantkit, and how to make each again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Optional

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantkit.calibration.table import CalibrationTable, read_table
from quantkit.errors import UserError
from quantkit.files.files import shipped
from quantkit.files.schema import first_fault
from quantkit.files.text import read_toml


@dataclass(frozen=True)
class RecipeInput:
    """A file that a table was made from; ``origin`` says what it holds, ``sha256`` is its hash."""

    file: str
    origin: str
    sha256: str


@dataclass(frozen=True)
class Recipe:
    """A calibration table that ships with quantkit, and how to make it again.

    Attributes:
        network: the name of the network's card.
        images: what the table was calibrated with, in words.
        samples: the name of sample data that quantkit can always open (see ``load_data``); algorithms and the
            comparison with FP32 use these instead of the images.
        command: the command that makes the table, in a folder with the input files.
        quantkit: the version that made the table.
        table: the table; ``data_name`` is ``images``.
        weights: the file of the network's weights; None if they ship with quantkit.
        data: the file of the images; None if quantkit can always open them.
    """

    network: str
    images: str
    samples: str
    command: str
    quantkit: str
    table: CalibrationTable
    weights: Optional[RecipeInput] = None
    data: Optional[RecipeInput] = None

    def __str__(self) -> str:
        return f"table shipped for these weights, from {self.table.samples} {self.images}"


_Text = Annotated[str, Field(min_length=1)]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: _Text
    origin: _Text
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _File(BaseModel):
    """The schema of a recipe's file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    network: _Text
    images: _Text
    samples: _Text
    command: _Text
    quantkit: _Text
    weights: Optional[_Input] = None
    data: Optional[_Input] = None


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from the TOML file ``path``, and its table from the file beside it with the suffix ``.json``.

    Raises:
        UserError: one of the two files cannot be read or is not valid.
    """
    try:
        file = _File.model_validate(read_toml(path))
    except ValidationError as error:
        where, what = first_fault(error)
        raise UserError(f"recipe {path} is not valid at {where!r}: {what}; correct it, or install again") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read recipe {path}: {error}; write it anew, or install again") from error
    return Recipe(
        file.network,
        file.images,
        file.samples,
        file.command,
        file.quantkit,
        replace(read_table(path.with_suffix(".json")), data_name=file.images),
        _input(file.weights),
        _input(file.data),
    )


def _input(entry: Optional[_Input]) -> Optional[RecipeInput]:
    return None if entry is None else RecipeInput(entry.file, entry.origin, entry.sha256)


@cache
def recipes() -> tuple[Recipe, ...]:
    """The recipes that ship with quantkit, ordered by file name."""
    return tuple(read_recipe(path) for path in sorted(shipped("calibration").glob("*.toml")))


def find_recipe(graph_sha256: str, method: str) -> Optional[Recipe]:
    """The recipe for a fused network and a calibration method; None if no such table ships.

    Args:
        graph_sha256: the hash of the fused network's structure and weights.
        method: the calibration method.
    """
    fitting = (each for each in recipes() if (each.table.graph_sha256, each.table.method) == (graph_sha256, method))
    return next(fitting, None)
