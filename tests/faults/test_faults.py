"""Whatever fails or kills a command while it writes: the older result or the new one is there, whole.

Each write, sync, lock, rename, making, removing, truncating and closing of a file of a command is a point. At each, the
call fails with an error of a full, broken or read-only disk, and the process is killed. Afterwards the result is the
older one or the new one, to the byte; an error is one of quantkit's own; and the next command works and leaves nothing
else. The order of calls shows besides that nothing takes its good name before it is on the disk.

All points: ``make test-faults``. Here, a part that ``QUANTKIT_FAULTS_SEED`` chooses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.verbs import VERBS
from tests.requirements import requires

SHARE = 1.0 if os.environ.get("QUANTKIT_FAULTS") == "all" else 0.03
SEED = os.environ.get("QUANTKIT_FAULTS_SEED", "0")

# Threads do not live through a fork: the driver computes without any.
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MXNET_ENGINE_TYPE": "NaiveEngine"}

WITHOUT_INT8 = {"report", "benchmark", "checkpoint"}


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts calls and lets them fail."""
    requires("gcc")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.timeout(7200 if SHARE == 1.0 else 300)
@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_the_older_result_or_the_new_one_is_whole(
    verb: str, shim: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if verb not in WITHOUT_INT8:
        request.getfixturevalue("int8_engine")
    if verb == "export":
        requires("onnx")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.driver", verb, str(tmp_path / "faults"), str(SHARE), SEED],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **ALONE, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{verb}: {found['points']} points, {found['tried']} tried (seed {SEED})")
    assert found["tried"] >= 4
    assert found["problems"] == []
