"""A command whose writing is faulted, and what it leaves behind."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import click

from quantkit.files.temporary import is_temporary


@dataclass(frozen=True)
class Verb:
    """A command that replaces a result: ``run`` ends with SystemExit; ``state`` is old, new, or what else there is."""

    run: Callable[[], None]
    state: Callable[[Path], str]
    remove: Callable[[Path], None]


def tree(path: Path) -> dict[str, bytes]:
    """The files below a path, or the file itself, but for locks and lists of what is in use."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in path.rglob("*")
        if each.is_file()
        and not each.name.endswith(".lock")
        and ".in-use" not in each.parts
        and not any(map(is_temporary, each.relative_to(path).parts))
    }


def command(base: Path, name: str, old: Callable[[], None], new: Callable[[], None]) -> Verb:
    """A command whose result has the same bytes each time."""
    import shutil

    out = base / "before" / name
    results = {}
    for which, run in (("new", new), ("old", old)):
        shutil.rmtree(base / "work", ignore_errors=True)
        shutil.copytree(base / "before", base / "work")
        said = io.StringIO()
        with contextlib.chdir(base / "work"), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                run()
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{name}: {said.getvalue()}") from end
        results[which] = tree(base / "work" / name)
        assert results[which], said.getvalue()
    assert results["old"] != results["new"], "the two results must differ"
    place = base / "work" / name
    shutil.copytree(place, out) if place.is_dir() else shutil.copy(place, out)

    def state(work: Path) -> str:
        found = tree(work / name)
        return next((which for which in results if results[which] == found), f"neither: {sorted(found)}")

    def remove(work: Path) -> None:
        shutil.rmtree(work / name) if (work / name).is_dir() else (work / name).unlink()

    return Verb(new, state, remove)


def called(arguments: list[str], **patched: Any) -> Callable[[], None]:
    """The command line as it is, but for what was computed beforehand, by its dotted name."""
    from quantkit.cli.main import cli
    from quantkit.cli.work import Work

    def run() -> None:
        with contextlib.ExitStack() as stack:
            for name, value in patched.items():
                stack.enter_context(mock.patch(name.replace("__", "."), value))
            cli(arguments, prog_name="quantkit", obj=Work())

    return run


def does(action: Callable[[], object]) -> Callable[[], None]:
    """Something that is no command by itself, with the command line's errors."""
    from quantkit.cli.main import cli
    from quantkit.cli.work import Work

    def run() -> None:
        faulted = click.Command("faulted", callback=lambda: action() and None)
        with mock.patch.dict(cli.commands, {"faulted": faulted}):
            cli(["faulted"], prog_name="quantkit", obj=Work())

    return run


def given(value: Any) -> Callable[..., Any]:
    """A function that gives the same whatever it is called with."""
    return lambda *_, **__: value
