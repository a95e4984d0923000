"""Networks run over the same samples, in one piece and in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from quantkit.bundle.network import network_of
from quantkit.data.aggregation import in_this_process
from quantkit.data.batches import Batch
from quantkit.data.samples import skipping
from quantkit.data.sources import load_data
from quantkit.errors import DataError
from quantkit.evaluation.evaluate import Evaluation, evaluate_networks
from quantkit.evaluation.joint_run import JointRun
from quantkit.evaluation.network import Network
from quantkit.evaluation.perplexity import Scale
from quantkit.fusion.fused_model import FusedModel
from quantkit.models.load import load_model
from tests.bad_images import digits_folder
from tests.sharding import InParts

SAMPLES = 40
EXECUTORS = (in_this_process, InParts(2), InParts(4), InParts(24))


def evaluations(networks: Mapping[Any, Network], data: str, **options: Any) -> list[Evaluation]:
    """In one piece, and in parts of two sizes."""
    evaluate: Callable[..., Evaluation] = partial(evaluate_networks, networks, load_data(data), 8, SAMPLES, **options)
    return [evaluate(), *(evaluate(executor=InParts(size)) for size in (8, 24))]


@pytest.fixture(scope="module")
def forms(digits_fused: FusedModel) -> Mapping[Any, Network]:
    """The digits network in another form, its reference, and a form of less precise weights."""
    whole = network_of(digits_fused.model)
    coarse = {name: np.round(value, 1) for name, value in whole.graph.params.items()}
    fused = replace(whole, graph=digits_fused.graph)
    return {"network": fused, "reference": whole, "against": replace(whole, graph=replace(whole.graph, params=coarse))}


def test_class_scores_of_parts_are_those_of_all(forms: Mapping[Any, Network]) -> None:
    whole, *others = evaluations(forms, "digits:test")
    assert whole.images == SAMPLES and 0 < whole.accuracy["against"].top1 < whole.accuracy["network"].top1
    assert whole.agreement["network"] != whole.agreement["against"]
    assert [each.document for each in others] == [whole.document] * 2


def test_outputs_of_parts_are_those_of_all(forms: Mapping[Any, Network]) -> None:
    whole, *others = evaluations(forms, "digits:test", said=False)
    assert not whole.accuracy and whole.agreement["network"].top1 is None
    assert [each.document for each in others] == [whole.document] * 2


def test_what_is_left_out_changes_nothing_else(forms: Mapping[Any, Network], tmp_path: Path) -> None:
    bad = {0, 9, 17, 18, 19}
    damaged = skipping(load_data(str(digits_folder(tmp_path / "digits", SAMPLES, bad))), len(bad))
    sound = load_data(str(digits_folder(tmp_path / "sound", SAMPLES, left_out=bad)))
    expected = evaluate_networks(forms, sound, 1)
    found = evaluate_networks(forms, damaged, 1)
    assert found.images == SAMPLES - len(bad) and expected.accuracy["network"].top1 > 0.9
    assert [each.name for each in found.left_out] == ["000.png", "009.png", "017.png", "018.png", "019.png"]
    assert replace(found, left_out=()) == expected
    # Of batches of two, one is left out as a whole, and so is all that a part has.
    whole, *others = (evaluate_networks(forms, damaged, 2, executor=how) for how in EXECUTORS)
    assert [each.document for each in others] == [whole.document] * len(others)
    assert whole.accuracy == expected.accuracy and whole.left_out == found.left_out


@pytest.mark.usefixtures("engine")
def test_steps_of_parts_are_those_of_all() -> None:
    network = network_of(load_model("char_lm"))
    coarse = {name: value.astype(np.float16).astype(value.dtype) for name, value in network.graph.params.items()}
    other = replace(network, graph=replace(network.graph, params=coarse))
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 50, (SAMPLES, network.input_shape[0] + 1)).astype(np.int64)
    data = load_data((tokens[:, :-1], tokens[:, 1:]))
    evaluate = partial(evaluate_networks, {"network": other, "reference": network}, data)
    whole = evaluate()
    assert whole.step_accuracy["network"].steps == network.input_shape[0] and whole.agreement["network"].steps
    assert evaluate(executor=InParts(16)).document == whole.document


def test_samples_have_labels_in_all_parts_or_in_none(forms: Mapping[Any, Network]) -> None:
    run = JointRun(forms, 8, "digits")
    data = np.zeros((8, *forms["network"].input_shape), np.float32)
    parts = [run.partial([Batch(data, labels, ("",) * 8)]) for labels in (np.zeros(8, np.int64), None)]
    with pytest.raises(DataError, match="some samples of digits have labels and some do not"):
        run.combine(parts)


def test_there_must_be_something_to_measure(forms: Mapping[Any, Network]) -> None:
    alone: Any = {"network": forms["network"]}
    images = load_data(np.zeros((8, *forms["network"].input_shape), np.float32))
    with pytest.raises(DataError, match="the data have no labels, so there is no accuracy to measure"):
        evaluate_networks(alone, images)
    with pytest.raises(DataError, match=r"are not class scores .* give a --reference"):
        evaluate_networks(alone, load_data("digits:test"), num_samples=8, said=False)


def test_scores_are_probabilities_in_all_parts_or_in_none(forms: Mapping[Any, Network]) -> None:
    run = JointRun(forms, 8, "digits")
    data = np.random.default_rng(0).normal(size=(8, *forms["network"].input_shape)).astype(np.float32)
    part = run.partial([Batch(data, np.zeros(8, np.int64), ("",) * 8)])
    parts = [{**part, "network/scale": np.array(code)} for code in (0, 0, 1)]
    assert run.combine(parts[:2]).scales == {"network": get_args(Scale)[0]}
    with pytest.raises(DataError, match="are probabilities for some samples of digits and not for others"):
        run.combine(parts)
