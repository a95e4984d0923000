"""Trust on first use: a file fetched without a published hash is recorded, and must match the record afterwards."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from quantkit.errors import ModelError
from quantkit.files.files import writing
from quantkit.files.text import read_json
from quantkit.models.content import Content

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """The record of a trusted file, stored beside the weights as a JSON object with these keys and ``format``, 1.

    ``source`` is the card's kind and location, ``url`` where the file came from, ``revision`` the commit that the hub
    stated, ``etag`` the server's name for the version; ``size`` is in bytes, ``date`` UTC in ISO 8601. Unknown values
    are empty.
    """

    source: str
    url: str
    revision: str
    etag: str
    size: int
    sha256: str
    date: str

    @property
    def content(self) -> tuple[int, str]:
        """The size and SHA-256 that a file must have."""
        return self.size, self.sha256


def new_record(source: str, content: Content) -> Record:
    """A record that trusts a content from now on, without an origin."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Record(source, "", "", "", content.size, content.sha256, now)


def record_file(weights: Path) -> Path:
    """The path of a weights file's record."""
    return weights.with_name(f"{weights.name}.record.json")


def write_record(path: Path, record: Record) -> None:
    """Write a record, whole or not at all.

    Raises:
        QuantkitError: the folder cannot be written.
    """
    with writing(path) as file:
        file.write(json.dumps({"format": FORMAT, **asdict(record)}, indent=1).encode() + b"\n")


def read_record(path: Path) -> Optional[Record]:
    """The record at ``path``; None if there is none.

    Raises:
        ModelError: it cannot be read, or is not a record of this format.
    """
    try:
        table = read_json(path)
        if table.pop("format") != FORMAT:
            raise ValueError("it is of another format")
        record = Record(**table)
        texts = (record.source, record.url, record.revision, record.etag, record.date)
        if not all(isinstance(text, str) for text in texts) or type(record.size) is not int or record.size < 0:
            raise ValueError("it holds a value of another type")
        if re.fullmatch("[0-9a-f]{64}", record.sha256) is None:
            raise ValueError("its sha256 is not one")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(
            f"{path}, the record of weights that were trusted, cannot be read ({error}); "
            "delete it to trust what is fetched next"
        ) from error
    return record
