"""What is told of epochs while they go on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

import pytest

from quantkit.cli import epochs
from quantkit.cli.epochs import EpochReport, remove_checkpoint
from quantkit.progress import T
from quantkit.training.epoch import Epoch
from quantkit.training.validation import Validated


class Terminal:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.work = self
        self.kept = ""

    def tell(self, line: str) -> None:
        self.lines.append(line)

    warn = tell

    def progress(self, stream: Iterable[T], total: int, title: str) -> Iterable[T]:
        self.lines.append(f"{title}, {total} steps")
        return stream


def test_a_checkpoint_that_stays_is_told(tmp_path: Path) -> None:
    checkpoint, terminal = tmp_path / "net.checkpoint", Terminal()
    remove_checkpoint(terminal, checkpoint)  # type: ignore[arg-type]
    checkpoint.touch()
    remove_checkpoint(terminal, checkpoint)  # type: ignore[arg-type]
    assert not checkpoint.exists() and not terminal.lines
    checkpoint.mkdir()
    remove_checkpoint(terminal, checkpoint)  # type: ignore[arg-type]
    assert terminal.lines == [f"cannot remove {checkpoint}: Is a directory; remove it, since the training is done"]


def test_the_end_is_expected_by_whole_epochs_without_what_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    # The clock of this module alone: threads of other tests wait by the real one.
    monkeypatch.setattr(epochs, "monotonic", lambda: clock[0])
    terminal = Terminal()
    report = EpochReport(terminal, Path("net.checkpoint"), 4, False, 36.0)  # type: ignore[arg-type]

    def epoch(number: int, judged: Optional[Validated], seconds: float) -> str:
        """An epoch of two steps; returns what is told of it."""
        for step in report.progress([1, 2], 2, f"epoch {number} of 4"):
            clock[0] += 10 * step
        clock[0] += seconds - 30
        report.told(Epoch(number, 0.5, 0.1, 30.0, 3000, 7.5, judged))
        opened, line = terminal.lines[-2:]
        assert opened == f"epoch {number} of 4, 2 steps"
        return line

    # An earlier run did the first. Networks and samples are loaded for an hour.
    clock[0] += 3600
    before = time.time()
    line = epoch(2, Validated(100, 40, 1.0), 60)
    assert terminal.kept == "net.checkpoint holds epoch 2; the same command goes on from there"
    assert line.startswith("epoch 2/4: loss 0.5000, top-1 40.0 %, 100.0 images/s, 25.0 % waiting for data, ends about ")
    expected = [time.strftime("%b %d %H:%M", time.localtime(before + late)) for late in (120, 122)]
    assert (found := re.search(r"ends about (\w+ \d+ [\d:]+)", line)) and found[1] in expected
    # 2 epochs of 60 s, at 36 an hour.
    assert line.endswith(", 1.2000 more to pay")
    # 1 epoch, of 60 and 100 s on average.
    assert epoch(3, None, 100).endswith(", 0.8000 more to pay")
    assert epoch(4, None, 60) == "epoch 4/4: loss 0.5000, 100.0 images/s, 25.0 % waiting for data"


def test_a_single_step_that_is_told_when_it_is_done_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "monotonic", lambda: 100.0)
    terminal = Terminal()
    report = EpochReport(terminal, Path("net.checkpoint"), 3, False, 36.0)  # type: ignore[arg-type]
    assert [*report.progress([1], 1, "epoch 1 of 3")] == [1]
    report.told(Epoch(1, 0.5, 0.1, 50.0, 3000, 0.0, None))
    # 2 epochs of 50 s, at 36 an hour.
    assert terminal.lines[-1].endswith(", 1.0000 more to pay")


def test_an_end_that_nothing_is_known_of_is_not_told() -> None:
    terminal = Terminal()
    # Instances may tell of an epoch of which no step was heard.
    EpochReport(terminal, Path("net.checkpoint"), 4, False, 36.0).told(  # type: ignore[arg-type]
        Epoch(1, 0.5, 0.1, 60.0, 3000, 0.0, None)
    )
    assert terminal.lines == ["epoch 1/4: loss 0.5000, 50.0 images/s, 0.0 % waiting for data"]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_goes_on_is_not_the_command_that_begins_anew(restarted: bool) -> None:
    terminal = Terminal()
    report = EpochReport(terminal, Path("net.checkpoint"), 3, restarted, None)  # type: ignore[arg-type]
    report.told(Epoch(1, 0.5, 0.1, 60.0, 3000, 0.0, None))
    same = "the same command without --restart" if restarted else "the same command"
    assert terminal.kept == f"net.checkpoint holds epoch 1; {same} goes on from there"
