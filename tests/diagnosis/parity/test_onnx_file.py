from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.registry import REFERENCE
from quantkit.diagnosis.parity.onnx_file import OnnxFile, Rounding, parse
from quantkit.errors import ModelError
from tests.backends.networks import int8_file, quantized
from tests.lowering.networks import quantized as quantized_there
from tests.networks import fire, images, residual_v1
from tests.requirements import requires

requires("onnx")
pytestmark = pytest.mark.usefixtures("int8_engine")

open_reference = REFERENCE.backend().open_session


@pytest.fixture(scope="module")
def file() -> OnnxFile:
    return parse(int8_file(quantized(residual_v1(), images(4), "dense")))


def test_a_concatenation_of_rounded_parts_is_rounded_unless_a_reader_rounds_it() -> None:
    rectified = parse(int8_file(quantized_there("rectified concatenation", "none")))
    assert rectified.rounding("concat") == Rounding("concat", "concat")
    twice = parse(int8_file(quantized_there("concatenation read twice", "none")))
    assert twice.rounding("concat") == Rounding("concat_unrounded", "concat")
    # In FP32 it joins the same parts, and the convolution behind it rounds the whole.
    left = parse(int8_file(quantized(fire(), images(4), "both")))
    assert left.rounding("max") == Rounding("max", "max_dequantized")


def test_where_tensors_are_rounded(file: OnnxFile) -> None:
    stem = file.rounding("relu0")
    assert stem.after == "relu0"
    data = file.rounding("data")
    assert data.before == "data"
    values = images(2)
    content = file.part({"data": values.shape}, [stem.before, stem.after, data.after])
    before, after, rounded = open_reference(content).run({"data": values})
    for exact, result in ((before, after), (values, rounded)):
        levels = np.unique(result)
        step = np.diff(levels).min()
        assert len(levels) <= 256
        np.testing.assert_allclose(levels / step, np.rint(levels / step), atol=1e-2)
        inside = (exact >= levels.min()) & (exact <= levels.max())
        assert inside.mean() > 0.99
        assert np.abs(exact - result)[inside].max() <= 0.51 * step


def test_a_tensor_that_is_not_rounded_is_named(file: OnnxFile) -> None:
    with pytest.raises(ModelError, match="does not round the tensor 'dense'"):
        file.rounding("dense")


def test_layers_that_the_file_has_in_integers(file: OnnxFile) -> None:
    assert {name: precision for name, precision in file.layers.items() if precision == "fp32"} == {"dense": "fp32"}
    assert len(file.layers) == 4


def test_a_part_computes_what_it_does_in_the_whole(file: OnnxFile) -> None:
    stem, last = file.rounding("relu0"), file.rounding("relu2")
    whole = file.part({"data": (1, 3, 16, 16)}, [stem.before, last.after])
    before, expected = open_reference(whole).run({"data": images(2)})
    part = file.part({stem.before: before.shape}, [last.after])
    assert set(parse(part).layers) < set(file.layers)
    (result,) = open_reference(part).run({stem.before: before})
    np.testing.assert_array_equal(result, expected)


def test_a_part_that_needs_more_is_refused(file: OnnxFile) -> None:
    with pytest.raises(ModelError, match="depends on 'data' besides"):
        file.part({"relu1": (1, 16, 16, 16)}, [file.rounding("relu2").after])


def test_what_is_no_onnx_file_is_refused() -> None:
    with pytest.raises(ModelError, match="this is not an ONNX file"):
        parse(b"\xff\xff no network")
