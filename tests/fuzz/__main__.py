"""Fuzz the loaders: ``python -m tests.fuzz [--seconds N] [--jobs N] [--keep] [TARGET...]`` (``make fuzz``).

Each target starts from sound files and from what was kept, and runs in a process of its own. What ends a target early
is a finding, and lies in ``build/fuzz/TARGET``: exit status 1. ``--keep`` keeps the smallest inputs, which each reached
code or states that those before did not, in ``tests/fuzz/corpora``, findings included.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.corpora import keep, kept
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fuzz"

# What one input may take: resident memory of the whole process, and seconds, on a busy machine, too.
MEGABYTES = 1024
SECONDS = 20

_LONGEST = 20_000

_IN_MEMORY = Path("/dev/shm")

# How the files begin that libFuzzer writes for findings.
_FINDINGS = ("crash-", "oom-", "timeout-", "leak-", "slow-unit-")

# How the lines of libFuzzer's log begin that say nothing of a finding.
_PROGRESS = ("#", "INFO:", "WARNING:", "0x")


@dataclass(frozen=True)
class Run:
    """What became of one target; ``finding`` is the end of what the process said, empty where there was none."""

    target: str
    inputs: int
    megabytes: int
    corpus: int
    finding: str


def fuzz(name: str, seconds: int, keeping: bool) -> Run:
    """Fuzz one target."""
    folder = BUILD / name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for content in (*TARGETS[name].seeds, *kept(name)):
        (corpus / sha256(content).hexdigest()[:16]).write_bytes(content)
    options = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-timeout={SECONDS}"]
    options += [f"-rss_limit_mb={MEGABYTES}", f"-artifact_prefix={folder}/", str(corpus)]
    with TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as scratch:
        command = [sys.executable, "-m", "tests.fuzz.one", name, scratch, *options]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    log = done.stdout.decode(errors="replace")
    (folder / "log.txt").write_text(log)
    if keeping:
        findings = (path for path in folder.iterdir() if path.name.startswith(_FINDINGS))
        keep(name, (path.read_bytes() for path in (*findings, *corpus.iterdir())))
    told = [line for line in log.splitlines() if not line.startswith(_PROGRESS)]
    inputs = re.search(r"Done (\d+) runs", log) or re.search(r".*#(\d+)\t", log, re.DOTALL)
    return Run(
        name,
        int(inputs[1]) if inputs else 0,
        max(map(int, re.findall(r"rss: (\d+)Mb", log)), default=0),
        sum(1 for _ in corpus.iterdir()),
        "\n".join(told[-40:]) if done.returncode else "",
    )


def main() -> int:
    """Fuzz the targets named, or all; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the loaders.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at once")
    parser.add_argument("--keep", action="store_true", help="keep what was found in tests/fuzz/corpora")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    asked = parser.parse_args()
    if unknown := sorted(set(asked.targets) - set(TARGETS)):
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    found = 0
    print(f"{'target':14} {'inputs':>9} {'corpus':>7} {'RSS, MB':>8}  finding")
    with ThreadPoolExecutor(asked.jobs) as pool:
        for run in pool.map(lambda name: fuzz(name, asked.seconds, asked.keep), asked.targets or TARGETS):
            print(
                f"{run.target:14} {run.inputs:9} {run.corpus:7} {run.megabytes:8}  {'yes' if run.finding else 'none'}"
            )
            print(run.finding, end="\n" if run.finding else "", flush=True)
            found += bool(run.finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
