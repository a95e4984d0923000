"""What is told of epochs while they go on."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from quantkit.cli import epochs
from quantkit.cli.epochs import remove_checkpoint, telling
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


def test_a_checkpoint_that_stays_is_told(tmp_path: Path) -> None:
    checkpoint, terminal = tmp_path / "net.checkpoint", Terminal()
    remove_checkpoint(terminal, checkpoint)  # type: ignore[arg-type]
    checkpoint.touch()
    remove_checkpoint(terminal, checkpoint)  # type: ignore[arg-type]
    assert not checkpoint.exists() and not terminal.lines
    checkpoint.mkdir()
    remove_checkpoint(terminal, checkpoint)  # type: ignore[arg-type]
    assert terminal.lines == [f"cannot remove {checkpoint}: Is a directory; remove it, since the training is done"]


def test_the_end_is_expected_by_whole_epochs_with_all_that_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    # The clock of this module alone: threads of other tests wait by the real one.
    monkeypatch.setattr(epochs, "monotonic", lambda: clock[0])
    terminal = Terminal()
    told = telling(terminal, Path("net.checkpoint"), 4, False, 36.0)  # type: ignore[arg-type]
    # An earlier run did the first; steps take 20 seconds, and all takes 60.
    clock[0] += 60
    before = time.time()
    told(Epoch(2, 0.5, 0.1, 20.0, 3000, 5.0, Validated(100, 40, 1.0)))
    assert terminal.kept == "net.checkpoint holds epoch 2; the same command goes on from there"
    (line,) = terminal.lines
    assert line.startswith("epoch 2/4: loss 0.5000, top-1 40.0 %, 150.0 images/s, 25.0 % waiting for data, ends about ")
    expected = [time.strftime("%b %d %H:%M", time.localtime(before + late)) for late in (120, 122)]
    assert (found := re.search(r"ends about (\w+ \d+ [\d:]+)", line)) and found[1] in expected
    # 2 epochs of 60 s, at 36 an hour.
    assert line.endswith(", 1.2000 more to pay")
    clock[0] += 30
    told(Epoch(4, 0.5, 0.1, 20.0, 3000, 5.0, None))
    assert terminal.lines[1] == "epoch 4/4: loss 0.5000, 150.0 images/s, 25.0 % waiting for data"


@pytest.mark.parametrize("restarted", [False, True])
def test_what_goes_on_is_not_the_command_that_begins_anew(restarted: bool) -> None:
    terminal = Terminal()
    told = telling(terminal, Path("net.checkpoint"), 3, restarted, None)  # type: ignore[arg-type]
    told(Epoch(1, 0.5, 0.1, 60.0, 3000, 0.0, None))
    same = "the same command without --restart" if restarted else "the same command"
    assert terminal.kept == f"net.checkpoint holds epoch 1; {same} goes on from there"
