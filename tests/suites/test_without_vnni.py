"""The suite of an emulated processor without VNNI: its rows."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from quantkit.evaluation.paired import paired


def test_a_row_has_both_processors() -> None:
    from without_vnni import Row, page

    agreement, cosine = {"VNNI": 0.94, "AVX2": 0.66}, {"VNNI": 0.998, "AVX2": 0.947}
    loss = paired(np.arange(100) < 66, np.arange(100) < 94)
    row = Row("net", "ONNX Runtime", "file, `none`", 100, agreement, cosine, loss, 0.41)
    text = page({"command": "python x", "host": {"cpu": "y"}, "rows": [asdict(row)]})
    assert text.splitlines()[-1].startswith(
        "| net | ONNX Runtime | file, `none` | 100 | 94, 0.9980 | 66, 0.9470 | -28 ["
    )
