"""How long threads of OpenMP that have no work keep their cores from threads that decode samples."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from itertools import islice

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.data.samples import Samples
from quantkit.data.sources import DataSource, load_data
from quantkit.errors import SampleError
from quantkit.training.augmentation import can_be_varied
from quantkit.training.feed_workers import SMALL

# Turns of the loop in which a thread looks for work before it sleeps; libgomp's own number is 300,000. While it looks,
# threads that decode do without its core, since they give way to all others: a network then waits for photographs. Of
# small networks, whose threads sleep between two operators then, this takes a few percent of the throughput.
_TURNS = "10000"
_VARIABLE = "GOMP_SPINCOUNT"

# Samples of which the first that can be read decides.
_TRIED = 8


def load_for_training(data: DataSource) -> None:
    """Load MXNet with threads of GNU's OpenMP that sleep soon after their work, if a training decodes large images.

    The library reads this once, when it is loaded. Nothing is done where MXNet is loaded already, or where the user has
    decided on it; the environment stays as it is.

    Args:
        data: the training samples.

    Raises:
        DataError: there are no such samples.
        SamplesUnavailable: they cannot be reached.
        EngineMissing: see ``load_mxnet``.
    """
    decided = "mxnet" in sys.modules or _VARIABLE in os.environ or "OMP_WAIT_POLICY" in os.environ
    if decided or not _are_decoded(load_data(data)):
        return
    os.environ[_VARIABLE] = _TURNS
    try:
        load_mxnet()
    finally:
        del os.environ[_VARIABLE]


def _are_decoded(samples: Samples) -> bool:
    """Whether samples are large images, each to be read by itself, by the first that can be read."""
    if not samples.independent:
        return False
    for read in islice(samples.deferred(), _TRIED):
        # The training tells of it, or leaves it out.
        with suppress(SampleError):
            sample = read()
            return can_be_varied(sample) and sample.image[..., 0].size >= SMALL
    return False
