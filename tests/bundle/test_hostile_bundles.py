"""Bundles whose hashes are right and whose network or lists are hostile or damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from quantkit.bundle import read_bundle, verify_bundle
from quantkit.bundle.file_names import OPERATORS, SYMBOL
from quantkit.errors import BundleError

_OTHER_PRECISION = b'[{"node": "a", "operator": "b", "into": "c", "precision": "int4", "reason": "", "rejections": []}]'


def _attack(bundle: Path) -> None:
    document = json.loads((bundle / SYMBOL).read_text())
    attack = {"op": "_Native", "name": "attack", "attrs": {"info": "0x4141414141"}, "inputs": [[0, 0, 0]]}
    document["nodes"].append(attack)
    document["heads"] = [[len(document["nodes"]) - 1, 0, 0]]
    (bundle / SYMBOL).write_text(json.dumps(document))


def test_a_pointer_in_a_bundle_is_refused(bundle: Path, resign: Callable[[Path], None]) -> None:
    _attack(bundle)
    resign(bundle)
    with pytest.raises(BundleError, match="'_Native', which is not allowed"):
        _ = read_bundle(bundle).graph
    verification = verify_bundle(bundle)
    assert not verification.ok
    assert "_Native" in verification.checks[-1].why


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[1]", b"[" * 1_000_000, b"\xff", b'[{"node": 1}]', _OTHER_PRECISION, b"\xef\xbb\xbf[]x"]
)
def test_a_damaged_list_of_operators_is_told(bundle: Path, resign: Callable[[Path], None], content: bytes) -> None:
    (bundle / OPERATORS).write_bytes(content)
    resign(bundle)
    with pytest.raises(BundleError, match=r"operators\.json cannot be used: [^\n]+$"):
        _ = read_bundle(bundle).operators
