"""How long threads of OpenMP that have no work keep their cores from threads that decode samples."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

import numpy as np

from quantkit.data.sources import DataSource, load_data
from quantkit.errors import DataError
from quantkit.training.feed_workers import SMALL

# Turns of the loop in which a thread looks for work before it sleeps; libgomp's own number is 300,000. While it looks,
# threads that decode do without its core, since they give way to all others: a network then waits for photographs. Of
# small networks, whose threads sleep between two operators then, this takes a few percent of the throughput.
_TURNS = "10000"


def spin_briefly(data: DataSource, environment: MutableMapping[str, str] = os.environ) -> None:
    """Have threads of GNU's OpenMP sleep soon after their work if large images are decoded for a training.

    Nothing changes where the user has decided on that. The library reads it when it is loaded: call this before MXNet
    is. Processes started later inherit it.

    Args:
        data: the training samples; the first of them is read.
        environment: what the library reads.

    Raises:
        DataError: there are no such samples.
    """
    decided = "GOMP_SPINCOUNT" in environment or "OMP_WAIT_POLICY" in environment
    if not decided and _are_decoded(data):
        environment["GOMP_SPINCOUNT"] = _TURNS


def _are_decoded(data: DataSource) -> bool:
    samples = load_data(data)
    if not samples.independent:
        return False
    try:
        image = next(iter(samples)).image
    except DataError:
        # The training tells of it, or leaves it out.
        return False
    return image.dtype == np.uint8 and image.shape[0] * image.shape[1] >= SMALL
