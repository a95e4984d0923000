"""All tables from the data that are committed, without measuring: benchmarks/results, README.md and the pages of docs/.

    python benchmarks/tables.py           # writes them
    python benchmarks/tables.py --check   # ends with 1 where one is not what the data give

In README.md and docs/ a table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; page_tables.py has the
names.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import accuracy_tables
import calibration_data
import cluster_efficiency
import cluster_identity
import cluster_scale
import convergence
import copies
import face_detectors
import feeding
import finetuning
import grouped
import horovod_cycle
import input_bound
import kvstore
import mixed_precision
import never_slower
import onnx_conformance
import onnx_parity
import page_tables
import predicting
import quantization_aware
import quantization_time
import reading
import recovered_speed
import recurrent_accuracy
import resuming
import run_pages
import serving
import serving_soak
import soak
import task_accuracy
import time_spent
import training_feed
import training_scaling
import training_score
import tuning
import watching
import without_vnni
import zoo_page
from command_line import run, write_page

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WRITTEN = (ROOT / "README.md", *sorted((ROOT / "docs" / "pages").rglob("*.md")))
"""Pages that people write, with tables in them."""

PAGES = {
    "ablation": accuracy_tables.markdown,
    "accuracy": accuracy_tables.markdown,
    "calibration-data": calibration_data.page,
    "cluster-efficiency": cluster_efficiency.page,
    "cluster-identity": cluster_identity.page,
    "cluster-scale": cluster_scale.page,
    "convergence": convergence.page,
    "copies": copies.page,
    "face-detectors": face_detectors.page,
    "feeding": feeding.page,
    "finetuning": finetuning.page,
    "grouped": grouped.page,
    "horovod-cycle": horovod_cycle.page,
    "input-bound": input_bound.page,
    "kvstore": kvstore.page,
    "mixed-precision": mixed_precision.page,
    "never-slower": never_slower.page,
    "onnx-conformance": onnx_conformance.page,
    "onnx-parity": onnx_parity.page,
    "predicting": predicting.page,
    "quantization-aware": quantization_aware.page,
    "quantization-time": quantization_time.page,
    "reading": reading.page,
    "recovered-speed": recovered_speed.page,
    "recurrent-accuracy": recurrent_accuracy.page,
    "resuming": resuming.page,
    "serving": serving.page,
    "serving-soak": serving_soak.page,
    "soak": soak.page,
    "task-accuracy": task_accuracy.page,
    "time-spent": time_spent.page,
    "training-feed": training_feed.page,
    "training-scaling": training_scaling.page,
    "training-score": training_score.page,
    "tuning": tuning.page,
    "watching": watching.page,
    "without-vnni": without_vnni.page,
    "zoo": zoo_page.page,
}


def generated() -> dict[Path, str]:
    """Every file with tables, as it should be; no page of a suite that has not been run."""
    measured = {name: render for name, render in PAGES.items() if (RESULTS / f"{name}.json").exists()}
    found = {RESULTS / f"{name}.md": render(data(name)) for name, render in measured.items()}
    found |= {RESULTS / f"{folder.name}.md": run_pages.page(folder) for folder in run_pages.runs(RESULTS)}
    found |= {path: page_tables.filled(path.read_text(), RESULTS, data) for path in WRITTEN}
    return found


# Words in the names of forms when these data were measured, and what they are called today.
_RENAMED = {"centring": "channel shift", "centred too": "channels shifted too"}


def data(name: str) -> dict[str, Any]:
    """The JSON of a suite, with the names that forms have today."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    for row in document.get("rows", ()):
        row |= {key: _named_today(row[key]) for key in ("form", "algorithms") if key in row}
    return document


def _named_today(form: str) -> str:
    for former, name in _RENAMED.items():
        form = form.replace(former, name)
    return form


def main() -> None:
    """Write all files that differ, or only name them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where a file differs")
    options = parser.parse_args()
    stale = {path: text for path, text in generated().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)} {'is not what the data give' if options.check else 'written'}")
        if not options.check:
            write_page(path, text)
    if stale and options.check:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
