"""The document of an evaluation."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from quantkit.data.left_out import LeftOut
from quantkit.evaluation.accuracy import Accuracy
from quantkit.evaluation.agreement import Agreement, OutputAgreement
from quantkit.evaluation.evaluate import Comparison, Evaluation
from quantkit.evaluation.measure import Score
from quantkit.evaluation.paired import Paired
from quantkit.models.class_scores import ClassScores

SCORES = ClassScores(True, "it ends in softmax")
PAIRED = Paired(10, 3, 1, 0.2, -0.1, 0.4, 0.6)


def test_the_document_has_what_was_measured_by_role() -> None:
    agreement = Agreement(10, 0.9, (OutputAgreement("scores", 0.99, math.inf, 0.0, 1.0),))
    evaluation = Evaluation(
        10,
        SCORES,
        {"network": Accuracy(10, 0.5, 0.8), "against": Accuracy(10, 0.25, 0.75)},
        {"against": agreement},
        (Comparison("accuracy", "against", PAIRED),),
        left_out=(LeftOut(3, "d.png", "no image"),),
    )
    document = json.loads(json.dumps(evaluation.document, allow_nan=False))
    output = {"name": "scores", "cosine": 0.99, "sqnr": None, "deviation": 0.0, "largest": 1.0}
    compared = {"images": 10, "first_only": 3, "other_only": 1, "difference": 0.2, "low": -0.1, "high": 0.4}
    assert document == {
        "images": 10,
        "left_out": [{"position": 3, "name": "d.png", "reason": "no image"}],
        "class_scores": {"yes": True, "why": "it ends in softmax", "settled": False},
        "accuracy": {"top1": 0.5, "top5": 0.8},
        "reference_accuracy": None,
        "against_accuracy": {"top1": 0.25, "top5": 0.75},
        "agreement": None,
        "against_agreement": {"top1": 0.9, "cosine": 0.99, "outputs": [output]},
        "comparisons": [
            {"measure": "accuracy", "with": "against", **compared, "p_value": 0.6, "verdict": "not distinguishable"}
        ],
    }


def test_scores_of_a_task_are_told_instead_of_outputs() -> None:
    agreement = Agreement(10, None, (OutputAgreement("ids", 0.99, math.inf, 0.0, 1.0),))
    assert agreement.texts == ("cosine 0.9900, signal to noise exact, largest deviation 0 of values up to 1",)
    nothing = replace(agreement, scores=(Score("mAP", None, None, None),))
    assert nothing.texts == agreement.texts and nothing.document["scores"][0]["value"] is None
    judged = replace(agreement, scores=(Score("mIoU", 0.5, 0.25, 0.75), Score("pixel accuracy", 1.0, 1.0, 1.0)))
    words = ("mIoU 50.0 % [25.0 %, 75.0 %]", "pixel accuracy 100.0 % [100.0 %, 100.0 %]")
    assert judged.texts == (*words, *agreement.texts)
    assert replace(judged, outputs=2 * judged.outputs).texts == words
    assert "scores" not in agreement.document
