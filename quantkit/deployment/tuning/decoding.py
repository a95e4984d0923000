"""How many threads decode image files fastest while the chosen deployment runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from quantkit.bundle.bundle import Bundle
from quantkit.data.decode import decode
from quantkit.data.sample_noun import sample_noun
from quantkit.deployment.predictions import image_files
from quantkit.deployment.tuning.contestant import Contestant, Running
from quantkit.deployment.tuning.point import Point
from quantkit.deployment.tuning.rounds import LONG, decisive
from quantkit.deployment.tuning.tuned import Decoded, Tuned
from quantkit.errors import QuantkitError, UserError
from quantkit.host.threads import worker_threads
from quantkit.progress import Tell

# So many files are decoded before anything is measured.
_TRIED = 16


def check_images(images: Path, bundles: Sequence[Bundle]) -> None:
    """Check that there are images, and that the networks read them.

    Raises:
        DataError: there are none, or one of the first few cannot be decoded.
        UserError: a bundle does not say how image files become its network's input.
    """
    for bundle in bundles:
        if sample_noun(bundle.manifest.input.shape) != "image" or bundle.preprocess is None:
            raise UserError(
                f"{bundle.directory} does not say how image files become its network's input; leave images (--images) "
                "out"
            )
    for file in image_files([images])[:_TRIED]:
        decode(file, str(file))


def with_decoding(tuned: Tuned, images: Path, turn: float, more: Callable[[], bool], tell: Tell) -> Tuned:
    """The result of a search, with how many threads decode image files fastest while the winner runs.

    Args:
        tuned: the result.
        images: a file, or a folder of files.
        turn: the seconds of one measurement on the way.
        more: whether there is time for a further round.
        tell: called with what is done.
    """
    tell("comparing numbers of threads that decode images")
    try:
        return replace(tuned, decoded=_decoded(tuned.winner.contestant, images, LONG * turn, decisive(more)))
    except QuantkitError as error:
        tell(f"the threads that decode could not be compared: {error}")
        return replace(tuned, undecoded=str(error))


def _decoded(deployment: Contestant, images: Path, seconds: float, more: Callable[[int], bool]) -> tuple[Decoded, ...]:
    """A deployment that reads files with several numbers of threads, the usual number first.

    ``more`` says whether there is a further round after so many.

    Raises:
        QuantkitError: it does not run, or a file cannot be decoded.
    """
    numbers = _numbers()
    points: dict[int, list[Point]] = {number: [] for number in numbers}
    shuffled, done = random.Random(0), 0
    with Running(replace(deployment, images=images.absolute())) as running:
        while more(done):
            for number in shuffled.sample(numbers, len(numbers)):
                points[number].append(running.decode(number, seconds))
            done += 1
    return tuple(Decoded(number, tuple(found)) for number, found in points.items())


def _numbers() -> list[int]:
    usual = worker_threads()
    return [*dict.fromkeys((usual, 2 * usual, max(1, usual // 2), max(1, usual // 4)))]
