"""How results, progress and warnings are put into words."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import pytest

from quantkit.cli.targets import default_bundle
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work, print_result
from quantkit.models.weights import RandomWeightsWarning
from quantkit.units import megabytes, percent


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0.0 %"), (0.5, "50.0 %"), (0.9996, "99.9 %"), (0.99999, "99.9 %"), (1.0, "100.0 %")]
)
def test_only_all_are_100_percent(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(("size", "text"), [(960, "1.0 kB"), (99_999, "100.0 kB"), (102_500_000, "102.5 MB")])
def test_sizes(size: int, text: str) -> None:
    assert megabytes(size) == text


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("resnet50", "resnet50_v1-int8"),
        ("folder/net", "net-int8"),
        ("folder/net-symbol.json", "net-int8"),
        ("./resnet50", "resnet50-int8"),
    ],
)
def test_bundles_are_named_after_the_network(spec: str, name: str) -> None:
    assert str(default_bundle(spec)) == name


@pytest.mark.parametrize(
    ("given", "name"), [("../mine", ".._mine-int8"), ("/tmp/mine", "_tmp_mine-int8"), ("mi\\u001bne", "mi_ne-int8")]
)
def test_the_name_in_a_card_leads_to_no_other_folder(tmp_path: Path, given: str, name: str) -> None:
    card = tmp_path / "card.toml"
    card.write_text(f'name = "{given}"\nnetwork = "alexnet"\ninput_shape = [3, 224, 224]\nclasses = 10\n')
    assert default_bundle(str(card)) == Path(name)


def test_progress_is_one_line_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Terminal(Work()).progress(iter("abc"), 3, "counting")) == ["a", "b", "c"]
    assert list(Terminal(Work(), quiet=True).progress(iter("abc"), 3, "counting")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "counting ...\n")


def test_the_middle_of_what_is_too_long_to_read_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    work = Work()
    message = f"node {'n' * 1_000_000!r} is wrong; export it again"
    for tell in (partial(work.error, "ModelError"), Terminal(work).warn):
        tell(message)
        told = capsys.readouterr().err
        assert len(told) < 8_100
        assert told.split(": ", 1)[1].startswith("node 'nnn") and told.endswith("nnn' is wrong; export it again\n")
        assert f"[... {len(message) - 8_000} characters ...]" in told
    work.error("ModelError", "n" * 8_000)
    assert capsys.readouterr().err == f"Error: {'n' * 8_000}\n"


def test_no_name_in_a_file_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    hostile = "a\x1b]0;title\x07b\x9bc\rd"
    table = Table("column")
    table.add_row(hostile)
    terminal = Terminal(Work())
    for print_it in (
        lambda: terminal.show({}, hostile, table),
        lambda: Terminal(Work(), json=True).show({"name": hostile}),
        lambda: terminal.tell(hostile),
        lambda: terminal.stage(hostile),
        lambda: terminal.warn(hostile),
        lambda: terminal.alarm("title", hostile),
        lambda: Work().error("Error", hostile),
    ):
        print_it()
        out, err = capsys.readouterr()
        assert not set(out + err) & set("\x1b\x07\x9b\r")
        assert "]0;title" in out + err


def test_colours_stay(capsys: pytest.CaptureFixture[str]) -> None:
    print_result("\x1b[1;31mred\x1b[0m\tand\nplain")
    assert capsys.readouterr().out == "\x1b[1;31mred\x1b[0m\tand\nplain\n"


def test_warnings_of_libraries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        Terminal(Work(), quiet=True).take_warnings()
        warnings.warn("theirs", UserWarning, stacklevel=1)
        warnings.warn("ours", RandomWeightsWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "Warning: ours\n")
