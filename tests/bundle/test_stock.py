"""Bundles in plain MXNet, as a deployment without quantkit uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAIN_MXNET = r"""
import json, sys
import numpy as np
for name in ("bool", "int", "float", "object", "complex", "str"):
    if name not in np.__dict__:
        setattr(np, name, getattr(__import__("builtins"), name))
import mxnet as mx

with np.load("sample.npz") as archive:
    data, expected = archive["input"], archive["output0"]
symbol, args, aux = mx.model.load_checkpoint("model", 0)
module = mx.mod.Module(symbol, data_names=["data"], label_names=None, context=mx.cpu())
module.bind([("data", data.shape)], for_training=False)
module.set_params(args, aux)
module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=False)
by_module = module.get_outputs()[0].asnumpy()

block = mx.gluon.SymbolBlock.imports("model-symbol.json", ["data"], "model-0000.params", ctx=mx.cpu())
by_block = block(mx.nd.array(data)).asnumpy()
assert not any(name.split(".")[0] == "quantkit" for name in sys.modules)
scale = float(abs(expected).max())
print(json.dumps([float(abs(output - expected).max()) / scale for output in (by_module, by_block)]))
"""


def deviations(directory: Path) -> list[float]:
    """By how much plain MXNet's outputs, of Module and of SymbolBlock, deviate from the stored ones."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MXNET_", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAIN_MXNET], env=env, cwd=directory, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_bundle_computes_the_same_in_plain_mxnet(digits_written: Path) -> None:
    assert max(deviations(digits_written)) <= 1e-6


def test_plain_mxnet_does_not_break_a_fused_preactivation_network(engine: None, tmp_path: Path) -> None:
    from quantkit.bundle import write_float_bundle
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model

    fused = fuse_model(load_model("digits_resnet20_v2"), "digits:train")
    assert max(deviations(write_float_bundle(fused, tmp_path / "v2"))) <= 1e-6


def test_the_comparison_notices_another_network(bundle: Path) -> None:
    import numpy as np

    with np.load(bundle / "sample.npz") as archive:
        arrays = dict(archive)
    np.savez(bundle / "sample.npz", input=arrays["input"], output0=arrays["output0"] * np.float32(1.001))
    assert min(deviations(bundle)) == pytest.approx(1e-3, rel=0.1)
