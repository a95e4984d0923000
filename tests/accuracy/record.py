"""Record what this commit's INT8 networks say of the images, for ``test_gate`` to hold later ones to.

``python -m tests.accuracy.record [SUBJECT...]``, once with each engine. Do so where a change is meant to alter INT8
networks, after having seen why it does; QUANTKIT_REAL_DATA tells where the real data are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from quantkit.host.cpu import read_cpu
from tests.accuracy.measure import SHIPPED, SUBJECTS, in_a_process

RECORD = Path(__file__).with_name("recorded.json")


def engine() -> str:
    """The installed engine, as the record calls it."""
    from quantkit.backends.mxnet.compat import load_mxnet

    return f"mxnet {load_mxnet().__version__}"


def recorded() -> dict[str, Any]:
    """The record: subjects by engine."""
    found: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    return found


def main(names: list[str]) -> None:
    known = recorded()
    subjects = names or list(SUBJECTS if engine() == "mxnet 1.9.1" else [subject.name for subject in SHIPPED])
    for name in subjects:
        found = {"processor": read_cpu().model, **in_a_process(name)}
        known.setdefault(engine(), {})[name] = found
        # One form a line.
        text = json.dumps(known, sort_keys=True, indent=1).replace("\n     ", " ")
        RECORD.write_text(text + "\n")
        print(name, {form: len(each["differs"]) for form, each in found["forms"].items()})


if __name__ == "__main__":
    main(sys.argv[1:])
