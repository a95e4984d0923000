"""What is worth a sentence, and what is not."""

from __future__ import annotations

from dataclasses import replace

from quantkit.diagnosis.layers.analysis import LayerError
from quantkit.diagnosis.layers.calibration import Audit, InputStatistics
from quantkit.diagnosis.layers.findings import findings
from quantkit.diagnosis.layers.overflow import Overflow
from quantkit.diagnosis.layers.tensor import Bins, TensorUse
from quantkit.evaluation.deviation import Deviation

USE = TensorUse(
    "data", "int8", 0.02, 2.54, 1000, -2.5, 2.5, {50.0: 0.0}, 0.0, 0.9, 0.0, 2.5, 2.5, 0.01, Bins(0.0, 1.0, (1,))
)
AUDIT = Audit("mse", 32, "photos", 0, (0.01, 0.1), (0.01, 0.1), 0.0, InputStatistics((0.0,), (1.0,), 0, False))


def layer(name: str, own: float, weights: float = 50.0, use: TensorUse = USE) -> LayerError:
    return LayerError(
        name, "Convolution", Deviation(20.0, 0.99), Deviation(own, 0.99), Deviation(weights, 0.99),
        Deviation(own, 0.99), Deviation(own, 0.99), Overflow(0.0, 0.0, 0.0), False, use,
    )  # fmt: skip


LAYERS = [layer(f"layer{index}", 40.0) for index in range(9)]


def sentences(tensor: TensorUse = USE, audit: Audit = AUDIT, *more: LayerError) -> tuple[str, ...]:
    return findings([*LAYERS, *more], [tensor, USE], audit, 100, False, "image")


def test_nothing_stands_out() -> None:
    assert sentences() == ()


def test_an_input_of_another_scale() -> None:
    (text,) = sentences(
        replace(USE, minimum=0.0, maximum=255.0), replace(AUDIT, input=replace(AUDIT.input, whole=True))
    )
    assert "reaches 255, all of them whole numbers" in text
    assert "card.toml" in text
    assert len(sentences(replace(USE, minimum=0.0, maximum=0.01))) == 1


def test_constant_images() -> None:
    (text,) = sentences(USE, replace(AUDIT, input=replace(AUDIT.input, constant=3)))
    assert text.startswith("3 of the images hold one value")


def test_images_that_were_calibrated_with() -> None:
    (text,) = sentences(USE, replace(AUDIT, repeated=7))
    assert text.startswith("7 of the 100 images were calibrated with")
    assert sentences(USE, replace(AUDIT, repeated=None)) == ()


def test_values_beyond_thresholds() -> None:
    (text,) = sentences(replace(USE, saturated=0.02))
    assert "2 % of the values of data lie beyond its threshold of 2.54" in text
    assert "1 of 2 tensors" in text


def test_too_few_images() -> None:
    (text,) = sentences(USE, replace(AUDIT, half_change=(0.1, 0.5)))
    assert "10 % in the middle and up to 50 %" in text
    assert "calibrate with more than 100 (the bundle: 32)" in text
    (text,) = sentences(USE, replace(AUDIT, half_change=(0.1, 0.5), images=101))
    assert text.endswith("analyse more (the bundle was calibrated with 101)")


def test_other_images_than_those_calibrated_with() -> None:
    (text,) = sentences(USE, replace(AUDIT, moved=(0.3, 0.9)))
    assert "the 32 images of photos" in text


def test_layers_that_add_more_error_than_others() -> None:
    (text,) = sentences(USE, AUDIT, layer("bad", 20.0))
    assert text.startswith("bad adds more error than others: 20.0 dB, where the middle layer has 40.0 dB")
    assert "tensors that it reads and writes; try another --method, or --exclude bad" in text
    (text,) = sentences(USE, AUDIT, layer("bad", 20.0, weights=19.0))
    assert "mostly in its weights; try a preset that fits weights" in text
    (text,) = findings([*LAYERS, layer("bad", 20.0, weights=19.0)], [USE], AUDIT, 100, True, "image")
    assert text.endswith("mostly in its weights; try --exclude bad")
    (text,) = sentences(USE, AUDIT, layer("bad", 20.0, use=replace(USE, levels=0.2, narrow_channels=0.5)))
    assert "(its values take only 20 % of the 256 integers, 50 % of its channels use at most 4 of 8 bits)" in text
    assert len(sentences(USE, AUDIT, *(layer(f"bad{index}", 20.0 + index) for index in range(5)))) == 3


def test_sums_that_saturate_without_vnni() -> None:
    hit = replace(layer("hit", 40.0), without_vnni=Deviation(20.0, 0.9), overflow=Overflow(0.01, 0.5, 0.1))
    (text,) = sentences(USE, AUDIT, hit)
    assert "1 of 10 layers (hit): hit has 20.0 dB there instead of 40.0, of its pairs of products 1 % saturate" in text
    assert sentences(USE, AUDIT, replace(hit, without_vnni=Deviation(39.0, 0.9))) == ()
    assert sentences(USE, AUDIT, replace(hit, overflow=Overflow(0.0, 0.0, 0.0))) == ()
