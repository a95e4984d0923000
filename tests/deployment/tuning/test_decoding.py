"""How many threads decode while the winner of a search runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest
from PIL import Image

from quantkit.bundle import Bundle
from quantkit.deployment.deployment_file import this_host
from quantkit.deployment.tuning import decoding
from quantkit.deployment.tuning.outcome import deployment_of, tuning_document
from quantkit.deployment.tuning.page import decoding_rows
from quantkit.errors import DataError, UserError
from tests.deployment.tuning.machine import by_engine, tuned


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    return folder


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "worker_threads", lambda: 4)


@pytest.mark.parametrize(
    ("rates", "workers"),
    [
        ({4: 100, 8: 120, 2: 90, 1: 50}, 8),
        ({4: 100, 8: 110, 2: 120, 1: 50}, 2),
        ({4: 100, 8: 100, 2: 90, 1: 50}, None),
    ],
)
@pytest.mark.usefixtures("four_threads")
def test_so_many_threads_decode_as_are_fastest_while_the_winner_runs(
    on: Any, bundle: Bundle, photographs: Path, rates: Mapping[int, float], workers: Optional[int]
) -> None:
    on(by_engine(100, 150)).decoding = rates
    found = tuned(bundle, images=photographs)
    assert [each.workers for each in found.decoded] == [4, 8, 2, 1]
    assert found.workers == workers == deployment_of(found, this_host()).workers
    told = {row[0]: row[-1] for row in decoding_rows(found)}
    assert told == {str(number): "yes" if number == (workers or 4) else "no" for number in rates}
    document = tuning_document(found, this_host(), "")
    assert document["workers"] == workers
    assert all(len(each["rounds"]) >= 4 for each in document["decoding"]) and len(document["decoding"]) == 4


@pytest.mark.usefixtures("four_threads")
def test_files_that_cannot_be_decoded_leave_the_winner(on: Any, bundle: Bundle, photographs: Path) -> None:
    on(by_engine(100, 150)).decoding = {4: 100}
    told: list[str] = []
    found = tuned(bundle, images=photographs, tell=told.append)
    assert found.workers is None and found.winner.contestant.engine == "openvino"
    assert found.undecoded == "a.png is damaged" == tuning_document(found, this_host(), "")["decoding_problem"]
    assert "the threads that decode could not be compared: a.png is damaged" in told


def test_images_are_looked_at_before_anything_is_measured(
    on: Any, bundle: Bundle, photographs: Path, tmp_path: Path
) -> None:
    machine = on(by_engine(100, 150))
    with pytest.raises(DataError, match="there is no image"):
        tuned(bundle, images=tmp_path / "none")
    with pytest.raises(UserError, match=r"does not say how image files become its network's input; leave images"):
        tuned(replace(bundle, preprocess=None), images=photographs)
    (photographs / "b.png").write_text("damaged")
    with pytest.raises(DataError, match=r"b\.png"):
        tuned(bundle, images=photographs)
    assert not machine.started
