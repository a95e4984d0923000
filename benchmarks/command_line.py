"""What the suites' scripts have in common on the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Optional

from quantkit.errors import QuantkitError
from quantkit.files import writing


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


def table(columns: Sequence[str]) -> list[str]:
    """The head of a Markdown table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def write_results(out: Path, host: Mapping[str, str], document: Mapping[str, Any], page: Iterable[str]) -> None:
    """Write OUT.json with the host and what else is known, and OUT.md with the lines of ``page``."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with writing(out.with_name(f"{out.name}.json")) as file:
        file.write((json.dumps({"host": host, **document}, indent=1) + "\n").encode())
    with writing(out.with_name(f"{out.name}.md")) as file:
        file.write(("\n".join(page) + "\n").encode())


def facts(host: Mapping[str, str]) -> str:
    """What is known of the host, in a line."""
    return ", ".join(f"{key} {value}" for key, value in host.items())


def run(main: Callable[[], None]) -> None:
    """Call ``main``; errors become a line and an exit code, Ctrl-C ends with 130."""
    try:
        main()
    except QuantkitError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
