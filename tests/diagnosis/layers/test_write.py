"""The page and the JSON, and where they may be written."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.diagnosis.layers.analysis import Analysis
from quantkit.diagnosis.layers.page import analysis_json, analysis_page
from quantkit.diagnosis.layers.write import write_analysis
from quantkit.errors import UserError
from quantkit.evaluation.deviation import Deviation


def test_the_json_holds_every_layer_and_tensor(analysis: Analysis, tmp_path: Path) -> None:
    write_analysis(analysis, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"analysis.json", "index.html"}
    document = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert (document["format"], document["version"]) == ("quantkit-analysis", 1)
    assert [layer["name"] for layer in document["layers"]] == [layer.name for layer in analysis.layers]
    assert document["layers"][0]["own"]["sqnr"] == analysis.layers[0].own.sqnr
    assert len(document["tensors"]) == len(analysis.tensors)


def test_no_deviation_is_null(analysis: Analysis) -> None:
    exact = replace(analysis.layers[0], own=Deviation(math.inf, 1.0))
    document = analysis_json(replace(analysis, layers=(exact, *analysis.layers[1:])))
    assert document["layers"][0]["own"]["sqnr"] is None


def test_the_page_shows_everything_and_needs_no_network(analysis: Analysis) -> None:
    page = analysis_page(replace(analysis, findings=("a <b>finding</b>",)))
    assert page.count("<svg") > 6
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert "a &lt;b&gt;finding&lt;/b&gt;" in page
    for layer in analysis.layers:
        assert f">{layer.name}<" in page
    assert "clock readings" not in page


def test_layers_without_weights_without_saturation_and_without_error(analysis: Analysis) -> None:
    pooling = replace(analysis.layers[0], weights=None, own=Deviation(math.inf, 1.0), output=None)
    clean = tuple(replace(tensor, saturated=0.0) for tensor in analysis.tensors)
    page = analysis_page(replace(analysis, layers=(pooling, pooling), tensors=clean))
    assert "exact" in page


@pytest.mark.long
def test_nothing_else_is_overwritten(analysis: Analysis, tmp_path: Path) -> None:
    write_analysis(analysis, tmp_path / "out")
    with pytest.raises(UserError, match=r"holds an analysis already; .*--force"):
        write_analysis(analysis, tmp_path / "out")
    write_analysis(analysis, tmp_path / "out", force=True)
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match=r"'mine\.txt', which is not part of an analysis"):
        write_analysis(analysis, tmp_path / "out", force=True)
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"
