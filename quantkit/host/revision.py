"""The revision of quantkit that made a result: the commit, and whether files differ from it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Optional

UNKNOWN = "unknown"

# Seconds that git may take: many on a network file system, but not for ever.
_PATIENCE = 20

# The files that decide a result, without those that a measurement writes.
_CODE = ("quantkit", "benchmarks", "models", "calibration", "pyproject.toml", ":(exclude)benchmarks/results")


@dataclass(frozen=True)
class Revision:
    """A commit in hexadecimal, or ``unknown``; ``dirty`` is whether files differ from it, None if unknown.

    Files of the package and its shipped data count if git tracks them, or if they are new and not ignored.
    """

    commit: str
    dirty: Optional[bool]

    def __str__(self) -> str:
        if self.commit == UNKNOWN:
            return UNKNOWN
        state = {True: "with changes that are not committed", False: "clean", None: "changes unknown"}[self.dirty]
        return f"{self.commit[:12]} ({state})"


def described(revision: Optional[Revision]) -> str:
    """A revision in words; results of quantkit 0.1 have none."""
    return "not recorded" if revision is None else str(revision)


@cache
def own_revision() -> Revision:
    """The revision of the running quantkit: from git for a checkout, from pip's record for an installed package."""
    root = Path(__file__).resolve().parents[2]
    return read_revision(root) if (root / ".git").exists() else _installed()


def read_revision(root: Path) -> Revision:
    """The revision of a checkout; the user's settings and variables do not affect git, and no hook runs."""
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return Revision(UNKNOWN, None)
    changes = _git(root, "status", "--porcelain", "--untracked-files=normal", "--", *_CODE)
    return Revision(commit.strip(), None if changes is None else bool(changes.strip()))


def _git(root: Path, *arguments: str) -> Optional[str]:
    """The output of git; None if it is not installed, fails or takes too long."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    isolated = {
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(root.parent),
        "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
    }  # fmt: skip
    # The checkout may be another user's, as in a container that mounts it: its code runs already.
    settings = (
        *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
        *("-c", f"safe.directory={root}"),
    )
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *settings, *arguments],
            env={**inherited, **isolated},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _installed() -> Revision:
    """The revision that pip recorded for a package installed from a repository (PEP 610)."""
    try:
        noted = metadata.distribution("quantkit").read_text("direct_url.json")
        return Revision(str(json.loads(noted or "")["vcs_info"]["commit_id"]), False)
    except (metadata.PackageNotFoundError, OSError, ValueError, LookupError, TypeError):
        return Revision(UNKNOWN, None)
