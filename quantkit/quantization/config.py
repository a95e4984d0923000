"""QuantizationConfig: how a network is to be quantized, as a value and as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import ClassVar, Optional, Union

from pydantic import ConfigDict, TypeAdapter, ValidationError

from quantkit.calibration.methods import DEFAULT_METHOD, observer
from quantkit.errors import UserError
from quantkit.files.files import writing
from quantkit.files.schema import first_fault
from quantkit.files.text import read_toml
from quantkit.files.toml import Value, toml_text
from quantkit.kinds import number, whole_number
from quantkit.quantization.goal import Goal
from quantkit.quantization.plan import TensorDtype, check_dtype
from quantkit.quantization.ptq_config import PRESETS, PresetName, PTQConfig, preset

DEFAULT_MINUTES = 10.0


@dataclass(frozen=True)
class QuantizationConfig:
    """How a network is to be quantized.

    The same configuration, network and data give the same INT8 network, except with a goal or ``never_slower``, which
    depend on measured milliseconds, and with a calibration table that replaces a calibration.

    As a file it is TOML: the attributes by their names, ``goal`` and ``algorithms`` as tables. Attributes that are left
    out have their defaults.

    Attributes:
        num_samples: how many samples to calibrate with; None: 32, or all if there are fewer.
        method: the calibration method: ``minmax``, ``percentile``, ``entropy`` or ``mse``, with a number after a colon
            where it takes one (``percentile:99.9``).
        exclude: what stays in FP32: original node names, globs over them, or operator types.
        dtype: the type of quantized inputs; ``auto`` takes uint8 where nothing is negative.
        preset: the algorithms that reduce the loss of accuracy, by name; None: ``balanced``, but ``none`` for random
            weights.
        algorithms: the algorithms one by one, instead of a preset.
        goal: what the network must keep; layers return to FP32 until it does. None: whatever can run in INT8 does.
        search_minutes: how long to search for these layers, and for those of ``never_slower``.
        never_slower: whether layers return to FP32 that are faster there on this machine, and all of them if the
            network is not proven to be faster than in FP32. A goal beside it needs a ``max_drop``.
        speed_batch: how many images a run has in these timings.

    Raises:
        UserError: a value is not of its kind, or two do not go together.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    num_samples: Optional[int] = None
    method: str = DEFAULT_METHOD
    exclude: tuple[str, ...] = ()
    dtype: TensorDtype = "auto"
    preset: Optional[PresetName] = None
    algorithms: Optional[PTQConfig] = None
    goal: Optional[Goal] = None
    search_minutes: float = DEFAULT_MINUTES
    never_slower: bool = False
    speed_batch: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before anything long begins."""
        if self.num_samples is not None:
            object.__setattr__(self, "num_samples", whole_number("num_samples", self.num_samples, 1))
        observer(self.method)
        object.__setattr__(self, "exclude", _patterns(self.exclude))
        check_dtype(self.dtype)
        if self.preset is not None:
            preset(self.preset)
        self._check_parts()
        object.__setattr__(self, "speed_batch", whole_number("speed_batch", self.speed_batch, 1, usual=8))
        self._check_speed()
        minutes = number("search_minutes", self.search_minutes, "give a number from 0 up, such as 10")
        if not 0 <= minutes < float("inf"):
            raise UserError(f"search_minutes is {minutes:g}; give a number from 0 up, such as 10")
        object.__setattr__(self, "search_minutes", minutes)

    def _check_parts(self) -> None:
        if self.algorithms is not None and not isinstance(self.algorithms, PTQConfig):
            raise UserError(f"algorithms is {self.algorithms!r}; give a PTQConfig, or a preset's name as preset")
        if self.preset is not None and self.algorithms is not None:
            raise UserError("both a preset and algorithms are given, and one takes the other's place; give one")
        if self.goal is not None and not isinstance(self.goal, Goal):
            raise UserError(f"goal is {self.goal!r}; give a Goal, such as Goal(max_drop=0.3)")

    def _check_speed(self) -> None:
        if not isinstance(self.never_slower, bool):
            raise UserError(f"never_slower is {self.never_slower!r}; give True or False")
        if self.speed_batch != 1 and not self.never_slower:
            raise UserError(
                f"speed_batch is {self.speed_batch}, and nothing is timed without never_slower; give both or neither"
            )
        if self.never_slower and self.goal is not None and self.goal.max_drop is None:
            raise UserError(
                "a goal of min_speedup alone makes the network slower, by as many layers in FP32 as it allows, and "
                "never_slower makes it faster; give one of them, or a max_drop as well"
            )

    def __repr__(self) -> str:
        """Only what differs from the defaults."""
        values = ((each, getattr(self, each.name)) for each in fields(self))
        given = (f"{each.name}={value!r}" for each, value in values if value != each.default)
        return f"QuantizationConfig({', '.join(given)})"

    @property
    def wanted_algorithms(self) -> Union[PresetName, PTQConfig, None]:
        """The preset's name or the algorithms, whichever is given."""
        return self.preset or self.algorithms

    @property
    def toml(self) -> str:
        """The configuration as TOML."""
        entries: dict[str, Value] = {"method": self.method, "dtype": self.dtype}
        if self.num_samples is not None:
            entries["num_samples"] = self.num_samples
        if self.exclude:
            entries["exclude"] = self.exclude
        if self.preset is not None:
            entries["preset"] = self.preset
        if self.goal is not None or self.never_slower or self.search_minutes != DEFAULT_MINUTES:
            entries["search_minutes"] = self.search_minutes
        if self.never_slower:
            entries["never_slower"] = True
            entries["speed_batch"] = self.speed_batch
        return toml_text(entries, {"goal": _given(self.goal), "algorithms": _given(self.algorithms)})

    def write(self, path: Union[str, Path]) -> None:
        """Write the configuration as a TOML file.

        Raises:
            QuantkitError: the file cannot be written.
        """
        with writing(Path(path)) as stream:
            stream.write(self.toml.encode())

    @classmethod
    def read(cls, path: Union[str, Path]) -> QuantizationConfig:
        """The configuration in a TOML file.

        Raises:
            UserError: the file cannot be read, or holds something else; the message names the key.
        """
        try:
            text = json.dumps(read_toml(Path(path)))
        except OSError as error:
            raise UserError(f"cannot read configuration {path}: {error.strerror or error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"configuration {path} is not valid TOML of texts, numbers and tables: {error}") from error
        try:
            return _schema().validate_json(text)
        except ValidationError as error:
            where, what = first_fault(error)
            raise UserError(f"configuration {path} is not valid at {where or 'its beginning'}: {what}") from error
        except UserError as error:
            raise UserError(f"configuration {path}: {error}") from error


def preset_of(algorithms: PTQConfig) -> Optional[PresetName]:
    """The name of the preset that these algorithms are; None where they are none."""
    return next((name for name, each in PRESETS.items() if each == algorithms), None)


def _patterns(exclude: object) -> tuple[str, ...]:
    if isinstance(exclude, str):
        raise UserError(f"exclude is one text; give a tuple, such as ({exclude!r},)")
    if not isinstance(exclude, (tuple, list)) or not all(isinstance(each, str) for each in exclude):
        raise UserError(f"exclude is {exclude!r}; give a tuple of texts, such as ('Pooling',)")
    return tuple(exclude)


@cache
def _schema() -> TypeAdapter[QuantizationConfig]:
    """It takes longer to make than to use."""
    return TypeAdapter(QuantizationConfig)


def _given(value: Union[Goal, PTQConfig, None]) -> Mapping[str, Value]:
    return {} if value is None else {name: each for name, each in asdict(value).items() if each is not None}


DEFAULT_CONFIG = QuantizationConfig()
