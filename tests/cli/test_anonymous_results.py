"""What a benchmark and its report write names no folder, host or user."""

from __future__ import annotations

import getpass
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantkit.benchmark.results.result_files import read_run
from quantkit.host import placeholders
from tests.cli.conftest import SHAPE, Run
from tests.cli.test_benchmark import SUITE

HOST, USER = "secret-host-17", "alice-of-accounts"


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user and a host whose names occur nowhere by chance."""
    from quantkit.benchmark.measuring import schedule

    monkeypatch.setattr(schedule, "ROUNDS", 2)
    monkeypatch.setattr(schedule, "_SLICE", 0.05)
    monkeypatch.setattr(schedule, "_WARM_UP", 0.05)
    monkeypatch.setenv("HOME", str(tmp_path / USER))
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / USER / "kept"))
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    monkeypatch.setattr(getpass, "getuser", lambda: USER)
    placeholders._names.cache_clear()
    yield
    placeholders._names.cache_clear()


def written(folder: Path) -> dict[str, str]:
    """All text files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".png"
    }


@pytest.mark.long
def test_nothing_that_is_written_tells_folders_host_or_user(
    run: Run, nobody: None, checkpoint: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = tmp_path / USER / "my suites" / "toy.toml"
    suite.parent.mkdir(parents=True)
    suite.write_text(SUITE.format(model=checkpoint).replace('build = "here"', 'build = "mine"'))
    out = tmp_path / USER / "results"
    mine = f"mine={sys.executable}"
    arguments = ["benchmark", suite, "--input-shape", SHAPE, "--data", samples, "--build", mine, "--out", out]
    monkeypatch.setattr(sys, "argv", ["quantkit", *map(str, arguments)])
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert run("report", out, "--out", tmp_path / USER / "page").exit_code == 0

    files = {**written(out), **written(tmp_path / USER / "page")}
    assert {"run.json", "index.html", "report.md", "report.json", "cells.csv"} <= set(files)
    assert any(name.startswith("cells/") for name in files)
    private = [str(tmp_path), str(checkpoint.parent), str(samples.parent), str(Path(sys.executable).parent), HOST, USER]
    for name, text in files.items():
        assert [each for each in private if each in text] == [], name
        # Nor any other folder than the system's own; the page's own styles and drawings have slashes, too.
        if name.endswith(("run.json", "cells.csv")) or name.startswith("cells/"):
            assert re.findall(r"[\"' =](/(?!usr/|lib|proc/|sys/)[\w.-]+/[^\"' ]*)", text) == [], name
    command = read_run(out).command
    assert command.startswith("quantkit benchmark '~/my suites/toy.toml'")
    assert "--build mine=…/python" in command or "--build mine=$QUANTKIT/" in command
    # The next command goes on in the same folder.
    assert run(*arguments).exit_code == 0
