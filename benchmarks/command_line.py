"""What the suites' scripts have in common on the command line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.cli.ending import exit_code, on_end
from quantkit.errors import QuantkitError
from quantkit.files.files import writing
from quantkit.host.children import kill_descendants
from quantkit.host.cpu import read_cpu
from quantkit.host.placeholders import recorded
from quantkit.host.revision import Revision, own_revision
from quantkit.version import __version__


def data_root() -> Path:
    """The folder of trained weights and images; ends the process with a message where there is none."""
    root = Path(os.environ.get("QUANTKIT_REAL_DATA", "../shared/data"))
    if not root.is_dir():
        sys.exit(f"no trained weights and images at {root}; set QUANTKIT_REAL_DATA")
    return root


def arguments(description: Optional[str]) -> argparse.ArgumentParser:
    """A parser with what all suites take: --out and --network."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write OUT.md and OUT.json")
    parser.add_argument("--network", action="append", help="only networks whose name contains this")
    return parser


def at_least(fewest: int) -> Callable[[str], int]:
    """An argument's type: whole numbers from ``fewest`` up."""

    def parsed(text: str) -> int:
        if not text.isdecimal() or int(text) < fewest:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {fewest} up")
        return int(text)

    return parsed


# An interval needs two.
ROUNDS = at_least(2)


def table(columns: Sequence[str]) -> list[str]:
    """The head of a Markdown table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def host_facts() -> dict[str, str]:
    """What figures depend on beside quantkit: processor, MXNet, Python, and the threads that OpenMP was allowed."""
    cpu = read_cpu()
    return {
        "cpu": cpu.model,
        "vnni": "yes" if cpu.has_vnni else "no",
        "mxnet": load_mxnet().__version__,
        "python": platform.python_version(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
    }


def revision_facts() -> dict[str, Any]:
    """The quantkit that runs: its version and its commit."""
    return {"version": __version__, **asdict(own_revision())}


Document = Mapping[str, Any]
"""A suite's JSON: ``command``, ``host``, ``revision`` (quantkit's; absent in those of version 0.1) and the figures."""


def write_results(
    out: Path, command: str, host: Mapping[str, str], figures: Mapping[str, Any], render: Callable[[Document], str]
) -> None:
    """Write OUT.json, with placeholders in place of folders and names, and what ``render`` makes of it, OUT.md."""
    facts = {"command": command, "host": host, "revision": revision_facts()}
    document = recorded({**facts, **figures}, frozenset({"revision"}))
    out.parent.mkdir(parents=True, exist_ok=True)
    with writing(out.with_name(f"{out.name}.json")) as file:
        file.write((json.dumps(document, indent=1) + "\n").encode())
    # Numbers and tuples as JSON has them, so that tables.py makes the same of the file.
    write_page(out.with_name(f"{out.name}.md"), render(json.loads(json.dumps(document))))


def write_rows(out: Path, command: str, rows: Sequence[Any], render: Callable[[Document], str]) -> None:
    """Write dataclasses as the ``rows`` of a suite that depends on no more of the host than ``host_facts``."""
    write_results(out, command, host_facts(), {"rows": [asdict(each) for each in rows]}, render)


def write_page(path: Path, text: str) -> None:
    """Write a page whole or not at all."""
    with writing(path) as file:
        file.write(text.encode())


def described(document: Document) -> str:
    """What was run, where, and by which quantkit, in a line."""
    return f"`{document['command']}`, {origin(document)}"


def origin(measured: Mapping[str, Any]) -> str:
    """Where figures were measured, and by which quantkit: their ``host`` and ``revision`` in words."""
    facts = [f"{key} {value}" for key, value in measured["host"].items()]
    revision = measured.get("revision")
    if revision is None:
        return f"{', '.join(facts)}, commit not recorded"
    commit = Revision(revision["commit"], revision["dirty"])
    return f"{', '.join(facts)}, quantkit {revision['version']}, commit {commit}"


def rows_page(document: Document, columns: Sequence[str], rows: Iterable[str], note: str = "") -> str:
    """A page of one table, below a note on what its columns mean."""
    return "\n".join([described(document), "", *([note, ""] if note else []), *table(columns), *rows]) + "\n"


def run(main: Callable[[], None]) -> None:
    """Call ``main``; errors become a line and an exit code, Ctrl-C ends with 130, SIGTERM with 143, SIGHUP with 129."""
    ended: list[int] = []

    def noticed(number: int) -> bool:
        ended.append(number)
        return True

    on_end(noticed)
    try:
        main()
    except QuantkitError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        kill_descendants()
        sys.exit(exit_code(ended[0]))
