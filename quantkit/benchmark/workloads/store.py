"""``QUANTKIT_HOME/workloads``: prepared files, named by a hash of what they were made from.

Files appear whole, so a process may use any that exists; of two processes that want the same checkpoint one waits.
The least recently used files beyond a size limit are removed; see ``quantkit.files.cache``.
Writing replaces a link itself, not the file that it leads to.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.checkpoint import read_checkpoint, write_checkpoint
from quantkit.benchmark.workloads.network import Checkpoint
from quantkit.errors import ModelError, QuantkitError, UserError
from quantkit.files import files
from quantkit.files.cache import bound_workloads, touch, use
from quantkit.files.contained import file_in
from quantkit.files.folders import whole_folder
from quantkit.files.text import read_json
from quantkit.formats.npz import write_npz
from quantkit.ir.graph import Graph
from quantkit.progress import Tell

_RECORD = "files.json"


@dataclass(frozen=True)
class Made:
    """A network's form, and its known figures of accuracy, by name."""

    graph: Graph
    accuracy: Mapping[str, float]


@dataclass(frozen=True)
class Stored:
    """A checkpoint on disk, with its figures of accuracy."""

    checkpoint: Checkpoint
    accuracy: Mapping[str, float]


def stored_checkpoint(name: str, key: str, make: Callable[[], Made], tell: Tell) -> Stored:
    """The checkpoint with this key, made and written if it is missing or was altered.

    Raises:
        QuantkitError: the folder cannot be written.
    """
    folder, stem = _folder("checkpoints"), _stem(name, key)
    use(folder / stem)
    with _locked(folder, stem, name, tell):
        stored = _find(folder, stem) or _write(folder, stem, make())
    _used(_paths(folder, stem)[2])
    return stored


def stored_files(name: str, key: str, make: Callable[[Path], Mapping[str, Path]], tell: Tell) -> Checkpoint:
    """The network for another engine with this key, made if it is missing or was altered.

    ``make`` writes its files into an empty folder and returns them by role.

    Raises:
        QuantkitError: the folder cannot be written.
    """
    folder, stem = _folder("networks"), _stem(name, key)
    use(folder / stem)
    with _locked(folder, stem, name, tell):
        checkpoint = _find_files(folder / stem) or _write_files(folder / stem, make)
    _used(folder / stem / _RECORD)
    return checkpoint


def stored_array(array: np.ndarray) -> Path:
    """A .npy file that holds the array."""
    content = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{content.dtype} {content.shape}".encode())
    digest.update(content.data)
    path = _folder("inputs") / f"{digest.hexdigest()[:32]}.npy"
    use(path)
    if not path.is_file():
        with files.writing(_without_link(path)) as file:
            np.save(file, content)
    _used(path)
    return path


def stored_outputs(key: str, make: Callable[[], list[np.ndarray]]) -> Path:
    """An .npz file of outputs with this key, made and written if it is missing."""
    path = _folder("references") / f"{key[:32]}.npz"
    use(path)
    if not path.is_file():
        outputs = make()
        with files.writing(_without_link(path)) as file:
            write_npz(file, {f"arr_{number}": output for number, output in enumerate(outputs)})
    _used(path)
    return path


def _used(path: Path) -> None:
    """Record the use of an entry, and remove others if the store is too large."""
    touch(path)
    bound_workloads()


def _stem(name: str, key: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", name) + f"-{key[:16]}"


def _locked(folder: Path, stem: str, name: str, tell: Tell) -> AbstractContextManager[None]:
    return files.locked(
        folder / f".{stem}.lock", partial(tell, f"{name}: waiting for another process that prepares it")
    )


def _find(folder: Path, stem: str) -> Optional[Stored]:
    symbol, params, record = _paths(folder, stem)
    try:
        known = read_json(record)
        # A worker hands the files to MXNet as they are.
        read_checkpoint(symbol, params)
        if known["symbol"] == files.sha256_of(symbol) and known["params"] == files.sha256_of(params):
            sha256 = {"symbol": known["symbol"], "params": known["params"]}
            accuracy = {name: float(value) for name, value in dict(known["accuracy"]).items()}
            return Stored(_checkpoint(symbol, params, sha256), accuracy)
    except (OSError, ValueError, LookupError, TypeError, ModelError):
        pass
    return None


def _write(folder: Path, stem: str, made: Made) -> Stored:
    symbol, params, record = map(_without_link, _paths(folder, stem))
    with files.writing(params) as arrays, files.writing(symbol) as text:
        write_checkpoint(made.graph, text, arrays)
    sha256 = {"symbol": files.sha256_of(symbol), "params": files.sha256_of(params)}
    with files.writing(record) as file:
        file.write(json.dumps({**sha256, "accuracy": dict(made.accuracy)}).encode() + b"\n")
    return Stored(_checkpoint(symbol, params, sha256), made.accuracy)


def _checkpoint(symbol: Path, params: Path, sha256: Mapping[str, str]) -> Checkpoint:
    return Checkpoint({"symbol": symbol, "params": params}, sha256)


def _find_files(folder: Path) -> Optional[Checkpoint]:
    try:
        known = read_json(folder / _RECORD)
        paths = {role: file_in(folder, file) for role, (file, _) in known.items()}
        sha256 = {role: digest for role, (_, digest) in known.items()}
        if paths and all(files.sha256_of(path) == sha256[role] for role, path in paths.items()):
            return Checkpoint(paths, sha256)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, UserError):
        pass
    return None


def _write_files(folder: Path, make: Callable[[Path], Mapping[str, Path]]) -> Checkpoint:
    with whole_folder(_without_link(folder)) as new:
        made = make(new)
        known = {role: (path.name, files.sha256_of(path)) for role, path in made.items()}
        (new / _RECORD).write_text(json.dumps(known) + "\n")
    return Checkpoint(
        {role: folder / name for role, (name, _) in known.items()},
        {role: digest for role, (_, digest) in known.items()},
    )


def _paths(folder: Path, stem: str) -> tuple[Path, Path, Path]:
    return folder / f"{stem}-symbol.json", folder / f"{stem}-0000.params", folder / f"{stem}.json"


def _without_link(path: Path) -> Path:
    """A path in the store to write to, after removing a link that leads elsewhere."""
    if path.is_symlink():
        path.unlink()
    return path


def _folder(kind: str) -> Path:
    folder = files.home() / "workloads" / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QuantkitError(
            f"cannot write {folder}: {error.strerror or error}; set QUANTKIT_HOME to a folder that you may write to"
        ) from error
    return folder
