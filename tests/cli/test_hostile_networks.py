"""A network that would have MXNet call through a pointer ends every verb that reads networks with one clear message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import SHAPE, start

VERBS = {
    "quantize": "quantize net --input-shape SHAPE --calib-data samples.npz",
    "fuse": "fuse net --input-shape SHAPE --out fused --calib-data samples.npz",
    "calibrate": "calibrate net --input-shape SHAPE --calib-data samples.npz --out table.json",
    "explain": "explain net --input-shape SHAPE --calib-data samples.npz",
    "evaluate": "evaluate net --input-shape SHAPE --data samples.npz",
    "export": "export net --input-shape SHAPE --out net.onnx",
    "benchmark": "benchmark net --input-shape SHAPE --builds here --data samples.npz",
    "profile": "profile net --input-shape SHAPE",
}


def _hostile(folder: Path, checkpoint: Path, samples: Path) -> None:
    """The checkpoint with a call through a pointer behind its input, as ``net`` in a folder."""
    document = json.loads(Path(f"{checkpoint}-symbol.json").read_text())
    attack = {"op": "_Native", "name": "attack", "attrs": {"info": "0x4141414141"}, "inputs": [[0, 0, 0]]}
    document["nodes"].append(attack)
    document["heads"] = [[len(document["nodes"]) - 1, 0, 0]]
    (folder / "net-symbol.json").write_text(json.dumps(document))
    shutil.copy(f"{checkpoint}-0000.params", folder / "net-0000.params")
    shutil.copy(samples, folder / "samples.npz")


@pytest.mark.parametrize("verb", VERBS)
def test_a_pointer_in_a_symbol_is_refused(
    checkpoint: Path, samples: Path, tmp_path: Path, verb: str, request: pytest.FixtureRequest
) -> None:
    if verb == "quantize":
        # Where INT8 networks cannot run, it says so before it reads anything.
        request.getfixturevalue("int8_engine")
    _hostile(tmp_path, checkpoint, samples)
    before = sorted(tmp_path.iterdir())
    process = start(tmp_path, *VERBS[verb].replace("SHAPE", SHAPE).split(), QUANTKIT_HOME=str(tmp_path.parent / "home"))
    _, told = process.communicate(timeout=120)
    assert process.returncode == 2, told
    assert "'attack'" in told
    assert "'_Native', which is not allowed in a network from a file" in told
    assert "Traceback" not in told
    assert sorted(tmp_path.iterdir()) == before
