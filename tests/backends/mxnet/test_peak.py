"""The machine's peak: what is counted, and that the kernels are those it is said to measure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quantkit.backends.mxnet import peak
from quantkit.backends.mxnet.kernels import parse
from quantkit.backends.mxnet.peak import Peak, measured_peak
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.macs import macs
from tests.processes import environment


def test_rates_are_multiply_accumulates_in_the_time_of_a_run(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_convolution", lambda *_: None)
    monkeypatch.setattr(peak, "_fastest", lambda _: 0.5)
    data, weight = Tensor("data"), Tensor("weight")
    node = Node("layer", "Convolution", (data, weight))
    expected = []
    for channels, side in peak._CONVOLUTIONS:
        image = (1, channels, side, side)
        shapes = {data: image, weight: (channels, channels, 3, 3), node.output: image}
        expected.append(macs(Graph((node,), ("data", "weight"), (node.output,)), shapes)["layer"] / 0.5 / 1e9)
    assert list(peak._rates(int8=False)) == pytest.approx(expected)


def test_the_kernels_are_int8_and_fp32(engine: None, tmp_path: Path) -> None:
    code = (
        "from quantkit.backends.mxnet import peak; peak._SECONDS = 0; peak._CONVOLUTIONS = ((64, 14),); "
        "peak.main('peak.json')"
    )
    env = environment(MKLDNN_VERBOSE="1", DNNL_VERBOSE="1")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    found = Peak(**json.loads((tmp_path / "peak.json").read_text()))
    kernels = {each.source + each.weights for each in parse(done.stdout) if each.primitive == "convolution"}
    assert found.fp32 > 0
    if int8_obstacle():
        assert found.int8 is None
        assert kernels == {"f32f32"}
    else:
        assert found.int8 is not None and found.int8 > 0
        assert kernels == {"u8s8", "f32f32"}


@pytest.mark.parametrize(
    "content", ["", "null", "[]", "{}", "7", '{"int8": 1.0}', '{"int8": "x", "fp32": 1.0}', '{"int8": null, "fp32": 0}',
                '{"int8": 1.0, "fp32": NaN}', '{"int8": -1.0, "fp32": 1.0}', "[" * 100_000, "\0"],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_rates_that_are_none_are_an_engine_error(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[-1]).write_text(content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("quantkit.backends.mxnet.peak.subprocess.run", run)
    with pytest.raises(EngineError, match="left no rates"):
        measured_peak()


def test_a_failing_process_is_an_engine_error(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run
    failing = "import sys; sys.exit('no memory')"
    monkeypatch.setattr(
        "quantkit.backends.mxnet.peak.subprocess.run",
        lambda command, **options: run([command[0], "-c", failing], **options),
    )
    with pytest.raises(EngineError, match=r"exit status 1.*no memory"):
        measured_peak()
