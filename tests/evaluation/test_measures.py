from __future__ import annotations

import numpy as np
import pytest

from quantkit.evaluation.accuracy import hits
from quantkit.evaluation.agreement import agreement, cosines, same_top1


def test_hits_may_have_further_axes() -> None:
    random = np.random.default_rng(1)
    outputs, labels = random.normal(size=(50, 6)), random.integers(0, 6, 50)
    for among in range(1, 7):
        wanted = [label in sorted(range(6), key=lambda c: -row[c])[:among] for row, label in zip(outputs, labels)]
        assert hits(outputs[:, :, None, None], labels, among).tolist() == wanted
    assert hits(outputs, labels).tolist() == (outputs.argmax(axis=1) == labels).tolist()


def test_of_equal_outputs_the_lower_classes_rank_first() -> None:
    classes = np.arange(100)
    correct = hits(np.zeros((100, 100)), classes, 30)
    assert correct.tolist() == (classes < 30).tolist()


@pytest.mark.filterwarnings("error")
def test_cosines_image_by_image() -> None:
    random = np.random.default_rng(2)
    a, b = random.normal(size=(2, 9, 4, 3, 2)).astype(np.float32)
    a[3] = b[3] = 0
    a[4] = 0
    a[5] *= 1e-30
    b[5] *= 1e-30
    b[6] = -a[6]
    computed = cosines(a, b)
    assert computed.dtype == np.float64
    for image in (0, 1, 2, 5, 6, 7, 8):
        x, y = a[image].ravel().astype(float), b[image].ravel().astype(float)
        assert computed[image] == pytest.approx(sum(x * y) / (sum(x * x) * sum(y * y)) ** 0.5, rel=1e-12)
    assert computed[[3, 4]].tolist() == [1.0, 0.0]
    places = [x.argmax() == y.argmax() for x, y in zip(a, b)]
    assert same_top1(a, b).tolist() == places
    assert agreement([([a], [b])], ["out"], True).cosine == pytest.approx(computed.mean())


def test_agreement_counts_and_averages() -> None:
    a = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    b = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    measured = agreement([([a[:1]], [b[:1]]), ([a[1:]], [b[1:]])], ["out"], True)
    assert (measured.images, measured.top1) == (3, pytest.approx(2 / 3))
    assert measured.cosine == pytest.approx((1 + 0 + 1) / 3)


def test_each_output_is_compared_by_the_definitions() -> None:
    random = np.random.default_rng(4)
    shapes = [(7,), (3, 5, 4), (2, 6)]
    a = [random.normal(size=(9, *shape)).astype(np.float32) for shape in shapes]
    b = [(each + 0.1 * random.normal(size=each.shape)).astype(np.float32) for each in a]
    parts = [([each[start:stop] for each in a], [each[start:stop] for each in b]) for start, stop in ((0, 4), (4, 9))]
    measured = agreement(parts, ["scores", "map", "boxes"], False)
    assert (measured.images, measured.top1) == (9, None)
    assert [output.name for output in measured.outputs] == ["scores", "map", "boxes"]
    for output, x, y in zip(measured.outputs, a, b):
        signal, noise = np.sum(x.astype(float) ** 2), np.sum((x.astype(float) - y) ** 2)
        assert output.sqnr == pytest.approx(10 * np.log10(signal / noise))
        assert output.cosine == pytest.approx(cosines(x, y).mean())
        assert output.deviation == pytest.approx(np.abs(x - y).max())
        assert output.largest == np.abs(x).max()
    assert len(measured.texts) == 3 and measured.texts[1].startswith("map: cosine 0.99")


def test_outputs_that_are_equal_have_no_noise_and_no_number_for_it() -> None:
    same = [np.ones((2, 3), np.float32)]
    measured = agreement([(same, same)], ["out"], False)
    assert measured.texts == ("cosine 1.0000, signal to noise exact, largest deviation 0 of values up to 1",)
    assert measured.document["outputs"][0]["sqnr"] is None


def test_rows_of_scores_may_have_further_axes() -> None:
    scores = np.random.default_rng(5).normal(size=(4, 6)).astype(np.float32)
    assert agreement([([scores[:, :, None, None]], [scores])], ["out"], True).outputs[0].deviation == 0
