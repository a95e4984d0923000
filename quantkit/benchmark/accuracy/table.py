"""A table of accuracy in its file: what is known of each network is kept when a run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Optional

from quantkit.benchmark.accuracy.measure import network_rows, opened
from quantkit.benchmark.accuracy.rows import document
from quantkit.benchmark.accuracy.suite import AccuracySuite, JudgedNetwork
from quantkit.benchmark.results.run_folder import claimed
from quantkit.bundle.engine import present_engine
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError, QuantkitError, UserError
from quantkit.files import files
from quantkit.files.code import code_hash
from quantkit.files.schema import Many, first_fault
from quantkit.files.text import MEBIBYTE, read_json
from quantkit.formats.mxnet.nnvm import sha256_of
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import read_limits
from quantkit.host.machine import describe
from quantkit.host.placeholders import recorded
from quantkit.host.revision import own_revision
from quantkit.host.topology import read_topology
from quantkit.models.model import Model
from quantkit.progress import Progress, silent

TABLE = "accuracy.json"
"""The name of a table's file in its folder."""

_LARGEST_FILE = 64 * MEBIBYTE

# Names, and what others refer to.
_KEPT = frozenset(("network", "form", "key", "suite"))


@dataclass(frozen=True)
class NetworkAccuracy:
    """A network's rows in a table, as JSON has them, or why there are none.

    ``key`` hashes all that the rows depend on but the content of the samples. ``host`` and ``revision`` are the machine
    and the quantkit that measured them.
    """

    network: str
    key: str = ""
    rows: Many[dict[str, Any]] = ()
    failure: Optional[str] = None
    measured: str = ""
    host: Mapping[str, Any] = field(default_factory=dict)
    revision: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether every form was measured."""
        return self.failure is None and not any(row["failure"] for row in self.rows)


@dataclass(frozen=True)
class _StoredDifference:
    difference: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class _StoredRow:
    """What must be in a row of a file."""

    network: str
    form: str
    calibration_samples: Optional[int]
    failure: Optional[str]
    images: int = 0
    top1: float = 0.0
    top5: float = 0.0
    agreement: float = 0.0
    cosine: float = 0.0
    accuracy_less_fp32: Optional[_StoredDifference] = None


def measure_accuracy(
    suite: AccuracySuite,
    folder: Path,
    command: str = "",
    tell: Callable[[str], object] = print,
    progress: Progress = silent,
    executor: Executor = in_this_process,
    force: bool = False,
) -> list[NetworkAccuracy]:
    """Measure a suite, and write its table into a folder after each network.

    What the folder's table has of the same network, names of data and code is not measured again. A network that
    cannot be measured costs no other.

    Args:
        suite: what to measure.
        folder: where the table lies.
        command: what the user has called.
        tell: called with messages about the progress.
        progress: wraps streams of batches.
        executor: where to run networks over many samples.
        force: measure all of the suite again.

    Raises:
        UserError: the folder holds something else, the table of another suite, or one that is damaged.
        ClusterError: the cluster cannot be used.
        QuantkitError: the table cannot be written.
    """
    with claimed(folder, TABLE):
        kept = _read(folder / TABLE, suite.name, force)
        measured = []
        for network in suite.network:
            earlier = None if force else kept.get(network.model)
            found = _measured(network, suite, earlier, tell, progress, executor)
            measured.append(found)
            if found.failure is None:
                kept[network.model] = found
            _write(folder / TABLE, suite, command, list(kept.values()))
        return measured


def _measured(
    network: JudgedNetwork,
    suite: AccuracySuite,
    earlier: Optional[NetworkAccuracy],
    tell: Callable[[str], object],
    progress: Progress,
    executor: Executor,
) -> NetworkAccuracy:
    try:
        model = opened(network, suite)
        key = _key(model, network, suite, executor)
        if earlier is not None and earlier.key == key and earlier.is_whole:
            tell(f"{network.model}: measured before")
            return earlier
        rows = [replace(row, network=network.model) for row in network_rows(model, network, suite, progress, executor)]
        figures = tuple(document(rows))
    except ClusterError:
        raise
    except QuantkitError as error:
        return NetworkAccuracy(network.model, failure=str(error))
    return NetworkAccuracy(
        network.model,
        key,
        figures,
        None,
        datetime.now(UTC).isoformat(timespec="seconds"),
        describe(read_cpu(), read_limits(), read_topology()),
        asdict(own_revision()),
    )


def _key(model: Model, network: JudgedNetwork, suite: AccuracySuite, executor: Executor) -> str:
    data = suite.data[network.data]
    facts = (
        (sha256_of(model.graph), repr(model.preparation), model.input_shape, model.exclude, asdict(data)),
        [load_data(spec).size for spec in (data.test, data.calibration)],
        (suite.methods, suite.presets, suite.algorithms, suite.stock_modes, suite.images),
        (code_hash(), dict(executor.environment), asdict(present_engine())),
    )
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _read(path: Path, suite: str, force: bool) -> dict[str, NetworkAccuracy]:
    """The networks of a table by their names; empty if there is none.

    Raises:
        UserError: it is damaged, or of another suite, and must not be replaced (``force``).
    """
    if not path.exists():
        return {}
    try:
        return {each.network: each for each in read_accuracy(path, suite)}
    except UserError:
        if force:
            return {}
        raise


def read_accuracy(path: Path, suite: str) -> tuple[NetworkAccuracy, ...]:
    """The networks in the file of a suite's table.

    Raises:
        UserError: it is damaged, or of another suite.
    """
    from pydantic import TypeAdapter, ValidationError

    remedy = "choose another folder with --out, or measure again with --force"
    try:
        content = read_json(path, _LARGEST_FILE)
        if not isinstance(content, Mapping) or content.get("suite") != suite:
            raise UserError(f"{path} is not a table of {suite}; {remedy}")
        entries = TypeAdapter(Many[NetworkAccuracy]).validate_python(content.get("networks"))
        for each in entries:
            TypeAdapter(Many[_StoredRow]).validate_python(each.rows)
    except ValidationError as error:
        where, what = first_fault(error)
        raise UserError(f"{path} is damaged: networks{'.' if where else ''}{where}: {what}; {remedy}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}; {remedy}") from error
    return entries


def _write(path: Path, suite: AccuracySuite, command: str, entries: list[NetworkAccuracy]) -> None:
    content = {
        "suite": suite.name,
        "title": suite.title,
        "command": command,
        "networks": [asdict(each) for each in entries],
    }
    with files.writing(path) as file:
        file.write(json.dumps(recorded(content, _KEPT), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")
