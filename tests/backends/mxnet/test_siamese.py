"""GluonCV's tracker as a symbol of one input computes what GluonCV's own does of two."""

from __future__ import annotations

import numpy as np

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.siamese import SURROUNDINGS, TARGET
from quantkit.models.load import load_model


def test_pairs_of_images_are_tracked_as_gluoncv_does(engine: None) -> None:
    mxnet = load_mxnet()
    block = load_gluoncv().model_zoo.get_model("siamrpn_alexnet_v2_otb15")
    mxnet.random.seed(1)
    block.initialize(mxnet.init.Xavier(), force_reinit=True)
    generator = np.random.default_rng(0)
    targets = generator.normal(size=(2, 3, TARGET, TARGET)).astype(np.float32)
    surroundings = generator.normal(size=(2, 3, SURROUNDINGS, SURROUNDINGS)).astype(np.float32)
    pairs = np.zeros((2, 3, SURROUNDINGS, SURROUNDINGS + TARGET), np.float32)
    pairs[..., :SURROUNDINGS] = surroundings
    pairs[:, :, :TARGET, SURROUNDINGS:] = targets
    expected = [block(mxnet.nd.array(targets[[n]]), mxnet.nd.array(surroundings[[n]])) for n in range(2)]
    computed = run(load_model(block, input_shape=pairs.shape[1:]).graph, {"data": pairs})
    for number, outputs in enumerate(expected):
        for values, wanted in zip(computed, outputs, strict=True):
            scale = np.abs(wanted.asnumpy()).max()
            assert scale > 0
            np.testing.assert_allclose(values[number], wanted.asnumpy()[0], atol=1e-4 * scale)
