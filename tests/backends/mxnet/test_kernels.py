"""The engine's verbose output: captured from both engines, and live."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.build import installed
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.kernels import Kernel, _reason, int8_isa, int8_share, kernels_of, parse
from quantkit.errors import EngineError

CAPTURED = sorted((Path(__file__).parent / "verbose").glob("*.txt"))


@pytest.mark.parametrize("file", CAPTURED, ids=lambda file: file.stem)
def test_every_call_is_counted_once(file: Path) -> None:
    text = file.read_text()
    calls = [line.split(",") for line in text.splitlines() if ",exec," in line]
    kernels = parse(text)
    assert sum(kernel.count for kernel in kernels) == len(calls) > 20
    assert sum(kernel.milliseconds for kernel in kernels) == pytest.approx(sum(float(call[-1]) for call in calls))
    for primitive in {call[3] for call in calls}:
        counted = sum(kernel.count for kernel in kernels if kernel.primitive == primitive)
        assert counted == text.count(f"exec,cpu,{primitive},")


@pytest.mark.parametrize("file", CAPTURED, ids=lambda file: file.stem)
def test_the_instruction_set_and_types_are_read(file: Path) -> None:
    kernels = parse(file.read_text())
    if "int8" in file.stem:
        assert int8_isa(kernels) == ("avx512_core_vnni",)
        assert int8_share(kernels) == (22, 22)  # 21 convolutions and a dense layer
        assert {kernel.source for kernel in kernels if kernel.primitive == "convolution"} == {"s8", "u8"}
    else:
        assert int8_isa(kernels) == ()
        assert int8_share(kernels) == (0, 22)
        assert {kernel.weights for kernel in kernels} == {"f32", ""}


def test_types_and_instruction_set_of_one_line() -> None:
    line = (
        "dnnl_verbose,exec,cpu,convolution,brgconv:avx512_core_vnni,forward_inference,src_u8::blocked:acdb:f0 "
        "wei_s8:p:blocked:AcdB16a4b:f3:s8m1 bia_undef::undef::f0 dst_s8::blocked:acdb:f0,attr-oscale:2 ,"
        "alg:convolution_direct,mb1_ic16oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.25"
    )
    once = Kernel("convolution", "brgconv:avx512_core_vnni", "u8", "s8", "avx512_core_vnni", 1, 0.25, "s8")
    assert parse(line) == (once,)
    assert parse(f"{line}\n{line}\n")[0].count == 2
    assert parse(line.replace("src_u8", "src_f32"))[0].is_int8 is False
    assert parse(line.replace("wei_s8", "src_f32"))[0].source == "u8"


def test_other_lines_are_passed_over_and_broken_ones_refused() -> None:
    assert parse("hello\n\ndnnl_verbose,info,cpu,runtime:OpenMP\n") == ()
    with pytest.raises(EngineError, match="unknown form"):
        parse("dnnl_verbose,exec,cpu,convolution,brgconv")
    with pytest.raises(EngineError, match="unknown form"):
        parse("dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:a:f0,,,16,soon")
    for time in ("nan", "inf", "1e999"):
        with pytest.raises(EngineError, match="unknown form"):
            parse(f"dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:a:f0,,,16,{time}")


def test_output_of_other_bytes_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = subprocess.run
    said = "import os; os.write(1, b'\\xff\\n')"
    monkeypatch.setattr(
        "quantkit.backends.mxnet.kernels.subprocess.run",
        lambda command, **options: run([sys.executable, "-c", said], **options),
    )
    assert kernels_of(tmp_path / "a", tmp_path / "b", (1, 2, 2)) == ()


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("old\nbad err=45 in Xbyak::Error\nterminate called\n  [bt] (0)\n", "bad err=45 in Xbyak::Error"),
        ("raise it\nMXNetError: Check failed: 1 vs. 2\nStack trace:\n [bt] (0)\n", "MXNetError: Check failed: 1 vs. 2"),
        ("Killed\n", "Killed"),
        ("", "it said nothing"),
    ],
)
def test_the_telling_line_of_a_dead_process(stderr: str, reason: str) -> None:
    assert _reason(stderr) == reason


def _tiny_int8(folder: Path) -> tuple[Path, Path]:
    """A checkpoint of one INT8 and one FP32 convolution, put together from stock operators."""
    mxnet = load_mxnet()
    random = np.random.RandomState(0)
    arrays: dict[str, Any] = {"first_weight": random.rand(16, 16, 1, 1), "first_bias": random.rand(16)}
    arrays |= {"weight": random.randint(-127, 128, (32, 16, 3, 3)), "bias": random.randint(-127, 128, 32)}
    types = dict.fromkeys(("weight", "bias"), "int8")
    arrays |= {"weight_min": [-1.0], "weight_max": [1.0], "bias_min": [-1.0], "bias_max": [1.0]}
    ranges = [mxnet.sym.var(name) for name in ("weight_min", "weight_max", "bias_min", "bias_max")]
    first = mxnet.sym.Convolution(mxnet.sym.var("data"), num_filter=16, kernel=(1, 1), name="first")
    data = mxnet.sym.contrib.quantize_v2(first, min_calib_range=0.0, max_calib_range=8.0, out_type="uint8")
    network = mxnet.sym.contrib.quantized_conv(
        data[0], mxnet.sym.var("weight"), mxnet.sym.var("bias"), data[1], data[2], *ranges,
        kernel=(3, 3), num_filter=32, name="second",
    )  # fmt: skip
    symbol, params = folder / "tiny-symbol.json", folder / "tiny-0000.params"
    network.save(str(symbol))
    mxnet.nd.save(
        str(params),
        {f"arg:{name}": mxnet.nd.array(value, dtype=types.get(name, "float32")) for name, value in arrays.items()},
    )
    return symbol, params


def test_live_kernels_of_an_int8_network(tmp_path: Path) -> None:
    symbol, params = _tiny_int8(tmp_path)
    if installed().int8_obstacle:
        with pytest.raises(EngineError, match="doctor"):
            kernels_of(symbol, params, (16, 12, 12))
        return
    kernels = [kernel for kernel in kernels_of(symbol, params, (16, 12, 12)) if kernel.primitive == "convolution"]
    assert sorted((kernel.source, kernel.weights, kernel.count) for kernel in kernels) == [
        ("f32", "f32", 1),
        ("u8", "s8", 1),
    ]
    # MKL-DNN 1.0 multiplies matrices where there is no AVX-512, and does not say by which instructions.
    assert all(kernel.isa or kernel.implementation == "igemm_s8u8s32:jit" for kernel in kernels)


def test_a_network_that_cannot_run_is_an_engine_error(tmp_path: Path) -> None:
    symbol, params = _tiny_int8(tmp_path)
    with pytest.raises(EngineError, match=r"exit status .*Error.*shape"):
        kernels_of(symbol, params, (3, 12, 12))
    with pytest.raises(EngineError, match="did not finish"):
        kernels_of(symbol, params, (16, 12, 12), timeout=0.01)
