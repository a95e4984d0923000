"""What networks make of images, computed in parts."""

from __future__ import annotations

from typing import Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run as run_graph
from quantkit.data.arrays import arrays
from quantkit.data.batch_stream import BatchStream
from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import DataError
from quantkit.ir.graph import Graph
from quantkit.mixed_precision.outcome_run import OutcomeRun
from quantkit.progress import silent
from tests.networks import DATA, Builder, images
from tests.sequences import STEPS, TOKENS, expected_scores, sequence_network, sequences
from tests.sharding import InParts

VOCABULARY = Vocabulary("embedding", TOKENS)


def classifier() -> Graph:
    b = Builder()
    return b.graph(b.op("Flatten", "flat", b.op("Pooling", "pool", b.conv("conv", DATA, 3, 5), global_pool=True)))


def stream(samples: np.ndarray, labels: Optional[np.ndarray], preparation: Optional[Vocabulary] = None) -> BatchStream:
    return BatchStream(arrays(samples, labels), preparation, samples.shape[1:], 4)


def test_classes_labels_and_hashes_are_the_same_in_parts(engine: None) -> None:
    graph, data, labels = classifier(), images(10), np.arange(10) % 5
    run = OutcomeRun(graph, None, True, 4, "net")
    whole = run.combine([run.partial(stream(data, labels))])
    np.testing.assert_array_equal(whole.values, run_graph(graph, {"data": data})[0].argmax(axis=1))
    assert whole.labels is not None
    np.testing.assert_array_equal(whole.labels, labels)
    cut = InParts(4)(run, stream(data, labels), silent, "")
    assert cut.sha256 == whole.sha256 and cut.labels is not None
    np.testing.assert_array_equal(cut.values, whole.values)
    np.testing.assert_array_equal(cut.labels, labels)
    others = [stream(data, None), stream(data, labels[::-1]), stream(data[::-1], labels)]
    assert len({whole.sha256, *(run.combine([run.partial(each)]).sha256 for each in others)}) == 4


def test_steps_have_cross_entropies_in_parts(engine: None) -> None:
    graph, ids = sequence_network("NT"), sequences(10, tokens=True)
    following = np.random.default_rng(0).integers(0, TOKENS, (10, STEPS))
    run = OutcomeRun(graph, graph, True, 4, "net")
    told = stream(ids, following, VOCABULARY)
    whole, cut = run.combine([run.partial(told)]), InParts(8)(run, told, silent, "")
    chances = np.exp(expected_scores(graph, ids))
    chances /= chances.sum(axis=-1, keepdims=True)
    expected = -np.log(np.take_along_axis(chances, following[..., None], axis=-1)[..., 0]).mean(axis=1)
    np.testing.assert_allclose(whole.values, expected, rtol=1e-4)
    assert whole.values.tobytes() == cut.values.tobytes() and whole.sha256 == cut.sha256


def test_labels_that_do_not_fit_are_told(engine: None) -> None:
    steps = stream(sequences(8, tokens=True), np.zeros((8, STEPS), np.int64), VOCABULARY)
    with pytest.raises(DataError, match="no row of scores for every step; give one label for each sample"):
        OutcomeRun(sequence_network("NT"), None, True, 4, "net").partial(steps)
    data, run = images(8), OutcomeRun(classifier(), None, True, 4, "net")
    parts = [run.partial(stream(data, labels)) for labels in (None, np.zeros(8, np.int64))]
    with pytest.raises(DataError, match="some samples have labels and some do not"):
        run.combine(parts)
    # To outputs that are no class scores, labels say nothing.
    unlabelled = OutcomeRun(classifier(), None, False, 4, "net").combine(parts[:1])
    assert unlabelled.labels is None
