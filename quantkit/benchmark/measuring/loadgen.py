"""One run of the server scenario: Poisson arrivals by MLPerf's LoadGen, answered by instances."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Optional

import numpy as np

from quantkit.benchmark.builds.foreign import foreign_environment
from quantkit.benchmark.measuring.dispatch import Dispatcher, Request, Serve
from quantkit.benchmark.results.results import ServerTrial
from quantkit.errors import InstanceError, QuantkitError, UserError
from quantkit.extras import require
from quantkit.files.text import MEBIBYTE, parse_json, read_text

_PROCESS = Path(__file__).parents[1] / "workers" / "loadgen_process.py"
_RECORD = ":::MLLOG "
_LAST_LINES = 20
_LARGEST_LOG = 256 * MEBIBYTE

# The conditions of a run that only concern its length: LoadGen's requirements for hour-long submissions.
_LENGTH = ("result_min_duration_met", "result_min_queries_met", "early_stopping_met")
_LATENCY = "result_perf_constraints_met"
_CONDITIONS = (_LATENCY, *_LENGTH)

# A line of LoadGen's summary.
_MORE = re.compile(r"\* Would need to run at least (\d+) more queries")


@dataclass(frozen=True)
class Observed:
    """A run as LoadGen recorded it, and the latencies of the same requests by our own clock, in ms.

    LoadGen counts from the time when a query was due, we from its arrival here.
    """

    trial: ServerTrial
    latencies: tuple[float, ...]

    @property
    def p99(self) -> float:
        """The p99 latency by our own clock, in ms."""
        return float(np.percentile(self.latencies, 99))


def check_loadgen() -> None:
    """Check that LoadGen is installed.

    Raises:
        UserError: it is not installed.
    """
    _location()


def run_trial(serve: Sequence[Serve], rate: float, bound: float, seconds: float, seed: int, folder: Path) -> Observed:
    """Let LoadGen send queries at random times and have the instances answer them.

    Args:
        serve: a function for each instance that serves one request; an exception ends the run.
        rate: queries per second, the mean of the Poisson process.
        bound: LoadGen's limit for the p99, in ms.
        seconds: how long queries are sent; waiting ones are still answered after that.
        seed: of the arrival times.
        folder: for LoadGen's logs; those of an earlier run are replaced.

    Raises:
        UserError: LoadGen is not installed.
        InstanceError: LoadGen calls the run invalid for another reason than that it was short or missed the bound.
        QuantkitError: LoadGen failed, or an instance did (its own exception).
    """
    settings = {"rate": rate, "bound": bound, "seconds": seconds, "seed": seed, "folder": str(folder)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QuantkitError(f"cannot make {folder}: {error.strerror or error}; choose another folder") from error
    latencies: list[float] = []
    with tempfile.TemporaryFile() as stderr, _generator(settings, stderr) as (process, queries):
        answers = process.stdin
        assert answers is not None

        def done(request: Request) -> None:
            latencies.append((time.monotonic_ns() - request.arrived) / 1e6)
            answers.write(b"%d\n" % request.number)

        with Dispatcher(serve, done, process.kill) as dispatcher:
            for line in queries:
                dispatcher.submit(int(line))
        code = process.wait()
        if dispatcher.error is not None and not isinstance(dispatcher.error, BrokenPipeError):
            raise dispatcher.error
        if code != 0:
            raise QuantkitError(f"LoadGen ended with exit code {code} at {rate:.4g} queries/s: {_last_lines(stderr)}")
    return Observed(_read(folder, rate, bound), tuple(latencies))


def _location() -> str:
    """The folder that LoadGen is installed in."""
    require("benchmark", "mlperf_loadgen", "measurements of the server scenario")
    spec = importlib.util.find_spec("mlperf_loadgen")
    if spec is None or spec.origin is None:
        raise UserError("mlperf_loadgen here is no package but a folder; install mlcommons-loadgen again")
    return str(Path(spec.origin).parent)


@contextmanager
def _generator(settings: dict[str, Any], stderr: IO[bytes]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A LoadGen process and the queries that it sends; the process is killed at the end."""
    location = _location()
    read, write = os.pipe()
    with os.fdopen(read, "rb") as queries:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", str(_PROCESS), json.dumps({**settings, "path": location, "queries": write})],
                bufsize=0,
                env=foreign_environment(),
                stdin=subprocess.PIPE,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(write,),
                # Ctrl-C in the terminal is for the parent alone.
                start_new_session=True,
            )
        finally:
            os.close(write)
        try:
            yield process, queries
        finally:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _read(folder: Path, rate: float, bound: float) -> ServerTrial:
    """The result in LoadGen's logs.

    Raises:
        InstanceError: they call the run invalid for a reason that is neither its length nor the bound.
        QuantkitError: they cannot be read, or are not complete.
    """
    try:
        lines = read_text(folder / "mlperf_log_detail.txt", _LARGEST_LOG).splitlines()
        summary = read_text(folder / "mlperf_log_summary.txt", _LARGEST_LOG)
    except OSError as error:
        raise QuantkitError(f"LoadGen's logs in {folder} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise QuantkitError(f"LoadGen's logs in {folder} are no text ({error})") from error
    try:
        records = [parse_json(line[len(_RECORD) :]) for line in lines if line.startswith(_RECORD)]
        values = {record["key"]: record["value"] for record in records}
        errors = [record for record in records if record["metadata"]["is_error"]]
        p50, p90, p99 = (values[f"result_{level}.00_percentile_latency_ns"] / 1e6 for level in (50, 90, 99))
        met = {name: values[name] is True for name in _CONDITIONS}
        valid, count = values["result_validity"] == "VALID", int(values["result_query_count"])
        # A verdict must follow from the conditions, and the one on latency from the bound.
        explained = valid == all(met.values()) and met[_LATENCY] == (p99 <= bound)
        clean = not errors and values["num_errors"] == 0
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise QuantkitError(f"LoadGen's log of {rate:.4g} queries/s is not complete or of another version") from error
    why = () if valid else _reasons(summary)
    if not (explained and clean):
        said = [f"{each['key']}: {each['value']}" for each in errors]
        reasons = (
            "; ".join([*said, *why]) or f"{values['result_validity']}, with {values['num_errors']} errors, unnamed"
        )
        message = f"LoadGen does not accept its run of {rate:.4g} queries/s, and not for its length alone: {reasons}"
        raise InstanceError("loadgen", message)
    return ServerTrial(rate, count, p50, p90, p99, valid, why)


def asked_for(reasons: tuple[str, ...]) -> Optional[int]:
    """The number of further queries that LoadGen requires to be sure of the p99; None if it requires none."""
    return next((int(match[1]) for line in reasons if (match := _MORE.match(line))), None)


def _reasons(summary: str) -> tuple[str, ...]:
    """The lines below the verdict in LoadGen's summary, without headings and met conditions."""
    verdict = summary.partition("Result is")[2].partition("=====")[0]
    # Wrapped sentences continue after one space.
    lines = re.sub(r"\n (?=[^ *])", " ", verdict).splitlines()[1:]
    return tuple(line.strip() for line in lines if line.strip() and not line.endswith((": Yes", ":")))


def _last_lines(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    return " / ".join(stderr.read().decode(errors="replace").splitlines()[-_LAST_LINES:]) or "it said nothing"
