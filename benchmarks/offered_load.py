"""Load on an HTTP server, from the generator hey (Debian's package of this name)."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quantkit.errors import UserError

# hey waits this much longer, in seconds, for the last answers.
_AFTER = 60.0


@dataclass(frozen=True)
class Answers:
    """What a server has answered.

    Attributes:
        seconds: from the first request to the last answer.
        latencies: of what was answered with 200, in ms.
        others: how many answers had another status, by status.
    """

    seconds: float
    latencies: list[float]
    others: Mapping[int, int]

    @property
    def rate(self) -> float:
        """Requests that were answered with 200, per second."""
        return len(self.latencies) / self.seconds


def offer(
    url: str, body: Path, headers: Mapping[str, str], callers: int, seconds: float, rate: float | None = None
) -> Answers:
    """Send the same request again and again.

    Args:
        url: where to.
        body: the request.
        headers: of it.
        callers: how many wait for an answer at a time; each sends its next request after it.
        seconds: for how long.
        rate: requests per second of all callers together, at most; None: as fast as they are answered.

    Raises:
        UserError: hey is not installed.
    """
    program = shutil.which("hey")
    if program is None:
        raise UserError("there is no hey, which generates the load; install it: apt-get install hey")
    paced = [] if rate is None else ["-q", f"{rate / callers:.6f}"]
    named = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    command = [program, "-z", f"{seconds}s", "-c", str(callers), *paced, "-m", "POST", "-D", str(body), *named]
    command += ["-T", "application/octet-stream", "-o", "csv", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + _AFTER)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    answered = [(int(row["status-code"]), float(row["offset"]), float(row["response-time"])) for row in rows]
    return Answers(
        max((offset + time for _, offset, time in answered), default=seconds),
        [1e3 * time for status, _, time in answered if status == 200],
        Counter(status for status, _, _ in answered if status != 200),
    )
