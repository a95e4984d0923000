from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.errors import QuantkitError
from quantkit.mixed_precision.journal import Journal, journal_path


def never() -> dict[str, object]:
    raise AssertionError("measured twice")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    journal = Journal(tmp_path / "searches" / "one.jsonl")
    journal.recall(("trial", "a"), lambda: {"milliseconds": 0.1 + 0.2})
    journal.recall(("trial", "a", "b"), lambda: {"milliseconds": 1e-17})
    return journal.path


def test_what_was_measured_is_not_measured_again(path: Path) -> None:
    journal = Journal(path)
    assert (journal.resumed, len(journal)) == (2, 2)
    assert journal.recall(("trial", "a"), never) == {"milliseconds": 0.1 + 0.2}
    assert journal.recall(("trial", "a", "b"), never) == {"milliseconds": 1e-17}
    assert journal.recall(("check", "a"), lambda: {"x": 1}) == {"x": 1}
    assert (journal.resumed, len(journal), Journal(path).resumed) == (2, 3, 3)


def test_each_measurement_is_on_disk_at_once(path: Path) -> None:
    journal = Journal(path)
    before = path.read_bytes()
    journal.recall(("trial", "c"), lambda: {"x": 1})
    assert path.read_bytes() == before + b'{"what": ["trial", "c"], "value": {"x": 1}}\n'


def test_a_failed_measurement_is_not_kept(path: Path) -> None:
    journal = Journal(path)
    with pytest.raises(KeyboardInterrupt):
        journal.recall(("trial", "c"), lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert ("trial", "c") not in journal
    assert Journal(path).resumed == 2


@pytest.mark.parametrize(
    "end", [b'{"what": ["trial", "c"], "val', b'{"what": ["trial", "c"], "value": {"x": 1}}', b"7\n"]
)
def test_a_torn_end_is_dropped_and_does_not_spoil_what_follows(path: Path, end: bytes) -> None:
    sound = path.read_bytes()
    path.write_bytes(sound + end)
    journal = Journal(path)
    assert journal.resumed == 2
    journal.recall(("trial", "c"), lambda: {"x": 2})
    assert path.read_bytes().startswith(sound)
    assert Journal(path).recall(("trial", "c"), never) == {"x": 2}


def test_other_facts_have_another_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path))
    facts = {"fused": "a" * 64, "engine": {"mxnet": "1.9.1"}}
    assert journal_path(facts) == journal_path(dict(reversed(list(facts.items()))))
    assert journal_path(facts).parent == tmp_path / "searches"
    assert journal_path(facts) != journal_path({**facts, "engine": {"mxnet": "1.6.0"}})


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantkitError, match="QUANTKIT_HOME"):
        Journal(tmp_path / "file" / "one.jsonl")
