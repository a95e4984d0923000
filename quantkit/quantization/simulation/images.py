"""Work on many images, one after the other in each of several threads: what one needs stays in the core's cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

# More would mostly wait for each other: every call needs Python's interpreter lock for a part of its time.
_MOST_THREADS = 16


def for_each_image(function: Callable[[int], Result], images: int) -> list[Result]:
    """The results of a function of the image's number, in the order of the images.

    The function runs in several threads at once, and may release the interpreter's lock, as NumPy does.
    """
    threads = min(images, len(os.sched_getaffinity(0)), _MOST_THREADS)
    if threads < 2:
        return [function(image) for image in range(images)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, range(images)))
