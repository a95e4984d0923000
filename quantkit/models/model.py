"""Model: a network together with what is needed to feed it and to say where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

from quantkit.data.preprocess import Preprocess
from quantkit.ir.graph import Graph

WeightsKind = Literal["pretrained", "random", "file", "given"]


@dataclass(frozen=True)
class Source:
    """Where a network and its weights came from.

    ``weights`` is ``pretrained`` (a published source), ``random`` (seeded, untrained), ``file`` (a
    local file of the user's) or ``given`` (objects handed over in Python). ``location`` is the
    address or file name without the machine's own folders; ``sha256`` is that of the weights file.
    """

    network: str
    weights: WeightsKind
    location: str = ""
    sha256: str = ""


@dataclass(frozen=True, eq=False)
class Model:
    """A network, its one image input, its preprocessing and its provenance.

    ``input_shape`` is (channels, height, width) without the batch axis, layout NCHW.
    ``preprocess`` is None where nothing is known of it: sample data must then be preprocessed arrays.
    ``exclude`` names what the model's card wants left in FP32. ``class_scores`` is whether the outputs are class
    scores, as far as somebody says so; see ``models.class_scores`` for what is made of it.
    """

    name: str
    graph: Graph
    input_shape: tuple[int, ...]
    preprocess: Optional[Preprocess]
    source: Source
    labels: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    class_scores: Optional[bool] = None
