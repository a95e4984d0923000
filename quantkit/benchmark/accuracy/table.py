"""A table of accuracy in its file: what is known of each network is kept when a run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Optional

from quantkit.benchmark.accuracy.measure import network_rows, opened
from quantkit.benchmark.accuracy.rows import document
from quantkit.benchmark.accuracy.suite import AccuracySuite, JudgedNetwork
from quantkit.benchmark.results.run_folder import claimed
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError, QuantkitError, UserError
from quantkit.files import files
from quantkit.files.code import code_hash
from quantkit.files.schema import first_fault
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

    ``key`` hashes all that the rows depend on but the content of the samples.
    """

    network: str
    key: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    failure: Optional[str] = None


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

    What the folder's table has of the same network, data and code is not measured again. A network that cannot be
    measured is told; the others are.

    Args:
        suite: what to measure.
        folder: where the table lies.
        command: what the user has called.
        tell: called with messages about the progress.
        progress: wraps streams of batches.
        executor: where to run networks over many samples.
        force: measure everything again.

    Raises:
        UserError: the folder holds something else, the table of another suite, or one that is damaged.
        ClusterError: the cluster cannot be used.
        QuantkitError: the table cannot be written.
    """
    with claimed(folder, TABLE):
        earlier = {} if force else _read(folder / TABLE, suite.name)
        entries = dict(earlier)
        for network in suite.network:
            found = _measured(network, suite, earlier.get(network.model), tell, progress, executor)
            entries[network.model] = found
            if found.failure is not None:
                tell(f"{network.model}: {found.failure}")
            _write(folder / TABLE, suite, command, [each for each in entries.values() if each.failure is None])
        return [entries[network.model] for network in suite.network]


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
        if earlier is not None and earlier.key == key:
            tell(f"{network.model}: measured before")
            return earlier
        rows = [replace(row, network=network.model) for row in network_rows(model, network, suite, progress, executor)]
    except ClusterError:
        raise
    except QuantkitError as error:
        return NetworkAccuracy(network.model, failure=str(error))
    return NetworkAccuracy(network.model, key, tuple(document(rows)))


def _key(model: Model, network: JudgedNetwork, suite: AccuracySuite, executor: Executor) -> str:
    data = suite.data[network.data]
    facts = (
        (sha256_of(model.graph), repr(model.preparation), asdict(data)),
        [load_data(spec).size for spec in (data.test, data.calibration)],
        (suite.methods, suite.presets, suite.algorithms, suite.stock_modes, suite.images),
        (code_hash(), dict(executor.environment), read_cpu().isa),
    )
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _read(path: Path, suite: str) -> dict[str, NetworkAccuracy]:
    """The networks of a table by their names; empty if there is none.

    Raises:
        UserError: it is damaged, or of another suite.
    """
    from pydantic import TypeAdapter, ValidationError

    if not path.exists():
        return {}
    remedy = "choose another folder with --out, or measure again with --force"
    try:
        content = read_json(path, _LARGEST_FILE)
        if not isinstance(content, Mapping) or content.get("suite") != suite:
            raise UserError(f"{path} is not a table of {suite}; {remedy}")
        entries = TypeAdapter(list[NetworkAccuracy]).validate_python(content.get("networks"))
    except ValidationError as error:
        raise UserError(f"{path} is damaged: {': '.join(first_fault(error))}; {remedy}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}; {remedy}") from error
    return {each.network: each for each in entries}


def _write(path: Path, suite: AccuracySuite, command: str, entries: list[NetworkAccuracy]) -> None:
    content = {
        "suite": suite.name,
        "title": suite.title,
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe(read_cpu(), read_limits(), read_topology()),
        "revision": asdict(own_revision()),
        "networks": [asdict(each) for each in entries],
    }
    with files.writing(path) as file:
        file.write(json.dumps(recorded(content, _KEPT), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")
