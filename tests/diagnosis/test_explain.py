from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from quantkit.data.sources import load_data
from quantkit.diagnosis.explain import explain_model
from quantkit.errors import UserError
from quantkit.models.load import load_model

pytestmark = pytest.mark.usefixtures("engine")


def test_every_operator_is_accounted_for_without_anything_written() -> None:
    model = load_model("digits_resnet20_v1")
    told: list[str] = []
    rows = explain_model(model, "digits:train", tell=told.append)
    assert [row.node for row in rows] == [node.name for node in model.graph.nodes]
    counts = Counter(row.precision for row in rows)
    assert counts["int8"] > counts["fp32"] > 0
    assert told == ["fusing operators and comparing with the original"]


def test_exclusions_and_types_count() -> None:
    model = load_model("digits_resnet20_v1")
    rows = {row.node: row for row in explain_model(model, "digits:train", ("FullyConnected",), "int8")}
    (dense,) = (node.name for node in model.graph.nodes if node.op == "FullyConnected")
    assert rows[dense].precision == "fp32"
    with pytest.raises(UserError, match="'nothing' matches no node"):
        explain_model(model, "digits:train", ("nothing",))


def test_few_samples_are_read() -> None:
    model = load_model("digits_resnet20_v1")
    read: list[str] = []

    def stream() -> Iterator[np.ndarray]:
        for sample in load_data("digits:train"):
            read.append(sample.name)
            yield sample.image[None]

    assert explain_model(model, stream()) == explain_model(model, "digits:train")
    assert len(read) < 50
