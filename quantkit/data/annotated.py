"""Images with what is true of them: objects, or the class of every pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

from quantkit.data.resizing import Size
from quantkit.data.samples import Samples

Truth = TypeVar("Truth")


@dataclass(frozen=True, eq=False)
class AnnotatedImages(Generic[Truth]):
    """Images with what is true of them.

    Attributes:
        samples: the images, without labels.
        classes: the names of the classes in the order of their indices.
        size: of the image at a position.
        truth: what is true of it.
        photographs: which photograph each image is a part of; None where each is one of its own.
        notes: what the user should know of what is judged.
    """

    samples: Samples
    classes: tuple[str, ...]
    size: Callable[[int], Size]
    truth: Callable[[int], Truth]
    photographs: Optional[Sequence[int]] = None
    notes: tuple[str, ...] = ()
