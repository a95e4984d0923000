"""Accuracy suites: networks, their images, and the forms to judge, from TOML files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional

from quantkit.calibration.methods import observer
from quantkit.data.preprocess import Preprocess
from quantkit.errors import UserError
from quantkit.files import files
from quantkit.files.schema import AboveZero, Many, first_fault
from quantkit.files.text import read_toml
from quantkit.models.card import preprocess_of
from quantkit.quantization.ptq_config import PresetName, PTQConfig, preset

if TYPE_CHECKING:
    from pydantic import ConfigDict

# With networks and data, or with one of these, a file is a suite of accuracy, not of speed or a network's card.
_FORMS = ("methods", "presets", "algorithms", "stock_modes")

Positive = Annotated[int, AboveZero]


@dataclass(frozen=True)
class JudgedOn:
    """Samples: those that networks are judged on, those to calibrate with, and how many of these.

    With several numbers, each network is calibrated that often.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    test: str
    calibration: str
    calibration_samples: Many[Positive] = (32,)


@dataclass(frozen=True)
class JudgedNetwork:
    """A network: a name, a card or a file, its weights, and which of the suite's samples and preprocessing it has."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    model: str
    data: str
    weights: str = "auto"
    input_shape: Optional[Many[Positive]] = None
    preprocess: Optional[str] = None


@dataclass(frozen=True)
class AccuracySuite:
    """Networks and the forms that each is judged in.

    Attributes:
        name: the file's, without its ending.
        network: the networks.
        data: samples by name.
        preprocess: how images become input, by name, for networks whose card does not say.
        methods: calibration methods, each without algorithms.
        presets: of algorithms, with the default method.
        algorithms: techniques one by one, with the default method: a ``name`` and fields of ``PTQConfig``, on top of
            those of ``preset`` if it names one.
        stock_modes: of stock MXNet's own quantization.
        images: of the test samples only so many, the first.
        title: what it shows.
    """

    name: str
    network: Many[JudgedNetwork]
    data: dict[str, JudgedOn]
    preprocess: dict[str, Any] = field(default_factory=dict)
    methods: Many[str] = ()
    presets: Many[PresetName] = ()
    algorithms: Many[dict[str, Any]] = ()
    stock_modes: Many[Literal["naive", "entropy"]] = ()
    images: Optional[Positive] = None
    title: str = ""

    def part(self, names: list[str]) -> AccuracySuite:
        """The suite with only these of its networks; with all if none are named.

        Raises:
            UserError: it has no such network.
        """
        known = [each.model for each in self.network]
        if unknown := [name for name in names if name not in known]:
            raise UserError(f"{self.name} has no network {unknown[0]!r}; there are {', '.join(known)}")
        return replace(self, network=tuple(each for each in self.network if not names or each.model in names))

    def steps(self, network: JudgedNetwork) -> Optional[Preprocess]:
        """The preprocessing that the suite gives a network; None: that of its card."""
        return None if network.preprocess is None else preprocess_of(self.preprocess[network.preprocess])


def accuracy_suites() -> dict[str, Path]:
    """The suites that ship with quantkit, by name."""
    return {path.stem: path for path in sorted(files.shipped("benchmarks").glob("*.toml")) if _is_suite(path)}


def find_accuracy_suite(spec: str) -> Optional[Path]:
    """The file of a suite, given a path or the name of a shipped one; None if it is something else."""
    path = Path(spec)
    if path.suffix == ".toml":
        return path if path.is_file() and _is_suite(path) else None
    return accuracy_suites().get(spec)


def _is_suite(path: Path) -> bool:
    try:
        document = read_toml(path)
    except (OSError, ValueError):
        return False
    return any(name in document for name in _FORMS) or {"network", "data"} <= document.keys() - {"contestant"}


def read_accuracy_suite(path: Path) -> AccuracySuite:
    """Read a suite's file.

    Raises:
        UserError: it is not TOML, not a suite, or is inconsistent.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        document = read_toml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the suite {path}: {error}") from error
    known = {each.name for each in fields(AccuracySuite)} - {"name"}
    if unknown := sorted(document.keys() - known):
        raise UserError(f"{path}: a suite of accuracy has no setting {unknown[0]!r}")
    try:
        suite = TypeAdapter(AccuracySuite).validate_python({"name": path.stem, **document})
        problem = next(_problems(suite), None)
    except ValidationError as error:
        where, what = first_fault(error)
        raise UserError(f"{path} is not a suite of accuracy: {where}: {what}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if problem is not None:
        raise UserError(f"{path}: {problem}")
    return suite


def _problems(suite: AccuracySuite) -> Iterator[str]:
    if not suite.network:
        yield "there is no network"
    names = [each.model for each in suite.network]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"the network {twice[0]!r} is there twice"
    for network in suite.network:
        if network.data not in suite.data:
            yield f"{network.model} has the data {network.data!r}; there are {', '.join(suite.data) or 'none'}"
        if network.preprocess is not None and network.preprocess not in suite.preprocess:
            yield f"{network.model} has the preprocessing {network.preprocess!r}, which the suite does not describe"
    for name, steps in suite.preprocess.items():
        if (fault := _fault(steps)) is not None:
            yield f"preprocess.{name}{fault}"
    for name, data in suite.data.items():
        counts = data.calibration_samples
        if not counts or len(set(counts)) < len(counts):
            yield f"calibration_samples of the data {name} must be different numbers, not {list(counts)}"
    for method in suite.methods:
        observer(method)
    configurations(suite.presets, suite.algorithms)
    forms = [*suite.methods, *(f"preset {name}" for name in suite.presets)]
    forms += [*(entry["name"] for entry in suite.algorithms), *(f"stock MXNet {mode}" for mode in suite.stock_modes)]
    if twice := sorted({name for name in forms if forms.count(name) > 1}):
        yield f"two forms are called {twice[0]!r}; give each another name"


def _fault(steps: Any) -> Optional[str]:
    """What is wrong with a table of preprocessing."""
    from pydantic import ValidationError

    try:
        preprocess_of(steps)
    except ValidationError as error:
        where, what = first_fault(error)
        return f"{'.' if where else ''}{where}: {what}"
    return None


def configurations(presets: Sequence[PresetName], algorithms: Sequence[Mapping[str, Any]] = ()) -> dict[str, PTQConfig]:
    """Presets and techniques by the names of their forms; see ``AccuracySuite``.

    Raises:
        UserError: there is no such technique or preset, or an entry has no name.
    """
    chosen = {f"quantkit preset {name}": preset(name) for name in presets}
    known = {each.name for each in fields(PTQConfig)}
    for entry in algorithms:
        if not isinstance(entry.get("name"), str):
            raise UserError("an entry of algorithms has no name; give it one, such as name = 'rounding alone'")
        techniques = {key: value for key, value in entry.items() if key not in ("name", "preset")}
        if unknown := techniques.keys() - known:
            raise UserError(
                f"unknown technique {min(unknown)!r} in {entry['name']!r}; choose of {', '.join(sorted(known))}"
            )
        begun = preset(entry["preset"]) if "preset" in entry else PTQConfig()
        chosen[f"quantkit {entry['name']}"] = replace(begun, **techniques)
    return chosen
