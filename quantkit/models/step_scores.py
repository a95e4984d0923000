"""The rule that decides whether a network of sequences puts out class scores at every step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Optional

from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.layout import SEQUENCE_LAYOUTS, layout_of


def step_scores(
    graph: Graph,
    shapes: Sequence[tuple[int, ...]],
    input_shape: tuple[int, ...],
    tokens: bool,
    labels: Collection[str] = (),
    said: Optional[bool] = None,
    labelled: bool = False,
) -> Optional[ClassScores]:
    """Decide whether the first output holds a row of class scores for every step of the input.

    Each step's row is judged as ``class_scores`` judges that of a sample; further outputs, such as final states, do not
    count.

    Args:
        graph: the FP32 network, unfused.
        shapes: those of its outputs for one sample, without the batch axis.
        input_shape: that of one sample.
        tokens: whether samples are token ids.
        labels: the names of the classes, if known.
        said: what the user says.
        labelled: whether every step has a class label.

    Returns:
        The decision; None if the first output has no row for every step.
    """
    first = shapes[0]
    is_sequence = layout_of(input_shape, tokens) in SEQUENCE_LAYOUTS
    if not is_sequence or len(first) != 2 or first[0] != input_shape[0]:
        return None
    return class_scores(graph, [first[1:]], labels, said, labelled)
