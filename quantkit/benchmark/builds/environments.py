"""Making, opening, checking and removing the builds on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Optional

from quantkit.benchmark.build import Build
from quantkit.benchmark.builds.build_folder import (
    builds_folder,
    folder_of,
    interpreter_in,
    is_environment,
    locked,
    read_current,
    read_record,
    recorded,
    recorded_names,
    set_aside,
    size_of,
    write_record,
)
from quantkit.benchmark.builds.probe import probe
from quantkit.benchmark.builds.recipes import RECIPES, base_python, make_environment
from quantkit.errors import EngineMissing, QuantkitError, UserError
from quantkit.files.cache import unused_elsewhere, use
from quantkit.files.folders import whole_folder
from quantkit.files.temporary import remove
from quantkit.progress import Tell, untold

HERE = "here"

State = Literal["ready", "not made", "broken"]


@dataclass(frozen=True)
class BuildState:
    """The state of a build.

    ``build`` is set if it is ready, ``problem`` is why it is broken. ``size`` is in bytes, None for an
    environment that is not quantkit's.
    """

    name: str
    role: str
    state: State
    build: Optional[Build] = None
    problem: str = ""
    size: Optional[int] = None


def open_build(name_or_spec: str, tell: Tell = untold) -> Build:
    """A working build: a recipe's, which is made first if necessary, or another.

    Nobody removes it until this process ends, as long as quantkit has made it.

    Args:
        name_or_spec: the name of a recipe or of a registered interpreter, ``here`` for the environment that
            quantkit runs in, or ``NAME=/path/to/python`` for any interpreter, which is not registered.
        tell: called with the name of each step.

    Raises:
        UserError: the name is unknown, or the interpreter does not work.
        QuantkitError: the build cannot be made, or no longer works.
    """
    name, own = _parsed(name_or_spec)
    if own is not None:
        _keep_around(own)
        return _probed_own(name, own, tell)
    if name == HERE and not _has_mxnet():
        raise EngineMissing(f"{sys.executable} has no mxnet, so there is no build {HERE}; name another build")
    _check_known(name)
    _keep(name)
    ready = _current(name)
    if ready is not None:
        return ready
    with locked(name, tell):
        if _exists(name):
            return _current(name) or _probed_again(name, tell)
        return _made(name, None, tell)


def open_builds(specs: Mapping[str, str], tell: Tell = untold) -> dict[str, Build]:
    """The working builds of some ``specs``, as ``open_build`` takes them, by the names that they are given here.

    The caller's own interpreters come first: they can be wrong, and to make a recipe's build takes minutes.

    Raises:
        UserError: see ``open_build``.
        QuantkitError: see ``open_build``.
    """
    own_first = sorted(specs, key=lambda name: "=" not in specs[name])
    opened = {name: replace(open_build(specs[name], tell), name=name) for name in own_first}
    return {name: opened[name] for name in specs}


def add_build(name_or_spec: str, tell: Tell = untold, python: Optional[str] = None) -> Build:
    """Make a recipe's build, or make it again if it is broken, or register an interpreter ``NAME=/path/to/python``.

    ``python`` is the interpreter to make a virtual environment with; by default the running one.

    Raises:
        UserError: an unknown or taken name, or an interpreter that cannot be used.
        QuantkitError: the build cannot be made, or is broken while another process uses it.
    """
    name, own = _parsed(name_or_spec)
    if own is not None:
        if python is not None:
            raise UserError("--python is for recipes; your own interpreter is used as it is")
        return _registered(name, own, tell)
    if name not in RECIPES:
        raise UserError(
            f"there is no recipe {name}; known: {', '.join(RECIPES)}; "
            f"or register your own interpreter: {name}=/path/to/python"
        )
    with locked(name, tell):
        if not _exists(name):
            return _made(name, python, tell)
        try:
            ready = _current(name) or _probed_again(name, tell)
        except QuantkitError:
            with unused_elsewhere(folder_of(name)):
                pass
            return _made(name, python, tell)
        if python is not None and os.path.realpath(ready.python) != base_python(RECIPES[name], python).executable:
            raise UserError(
                f"build {name} is made with another interpreter (Python {ready.python_version}); "
                f"quantkit builds remove {name} first"
            )
        return ready


def list_builds(tell: Tell = untold) -> tuple[BuildState, ...]:
    """All recipes, the interpreters that the user registered, and ``here`` if it has an engine.

    Only builds that changed since they were probed are probed again.
    """
    return tuple(state_of(name, tell) for name in known_builds())


def known_builds() -> tuple[str, ...]:
    """The names that ``list_builds`` lists."""
    own = [name for name in recorded_names() if name not in RECIPES and name != HERE]
    return (*RECIPES, *own, *([HERE] if _has_mxnet() else []))


def check_build(name: str, tell: Tell = untold) -> BuildState:
    """Probe a build again, changed or not.

    Raises:
        UserError: there is no build of that name.
    """
    return state_of(name, tell, anew=True)


def state_of(name: str, tell: Tell = untold, anew: bool = False) -> BuildState:
    """The state of a build, which is probed if it has changed, or always if ``anew``.

    Raises:
        UserError: there is no build of that name.
    """
    _check_known(name)
    recipe = RECIPES.get(name)
    role = recipe.role if recipe else "this environment" if name == HERE else "your own"
    if _exists(name):
        _keep(name)
    if not _exists(name):
        return BuildState(name, role, "not made")
    size = size_of(name) if is_environment(name) else None
    try:
        build = None if anew else _current(name)
        if build is None:
            with locked(name, tell):
                build = _probed_again(name, tell)
    except QuantkitError as error:
        return BuildState(name, role, "broken", problem=str(error), size=size)
    return BuildState(name, role, "ready", build, size=size)


def remove_build(name: str, tell: Tell = untold) -> None:
    """Remove a recipe's virtual environment, or forget the user's interpreter.

    Raises:
        UserError: there is nothing of that name to remove.
        QuantkitError: another process uses it, or the folder cannot be removed.
    """
    if name == HERE:
        raise UserError(f"{HERE} is the environment that quantkit runs in; it cannot be removed")
    _check_known(name)
    with locked(name, tell):
        if not _exists(name):
            raise UserError(f"build {name} is not made, so there is nothing to remove")
        with unused_elsewhere(folder_of(name)):
            aside = set_aside(name)
    # It may take long, and others wait for the locks.
    remove(aside)


def _has_mxnet() -> bool:
    return importlib.util.find_spec("mxnet") is not None


def _exists(name: str) -> bool:
    return name == HERE or folder_of(name).is_dir()


def _keep(name: str) -> None:
    """Keep others from removing a build, and the environment of another that it may be an interpreter in."""
    if name != HERE:
        use(folder_of(name))
        if python := _interpreter(name):
            _keep_around(python)


def _keep_around(python: str) -> None:
    """Keep others from removing the build whose environment an interpreter lies in."""
    folder, builds = Path(os.path.abspath(python)), Path(os.path.abspath(builds_folder()))
    if folder.is_relative_to(builds):
        use(folder_of(folder.relative_to(builds).parts[0]))


def _check_known(name: str) -> None:
    known = known_builds()
    if name not in known:
        raise UserError(f"there is no build {name}; known: {', '.join(known)}; or give NAME=/path/to/python")


def _parsed(spec: str) -> tuple[str, Optional[str]]:
    """The name, and the interpreter if one is given."""
    name, given, path = spec.partition("=")
    if not given:
        return name, None
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name) or name == HERE:
        raise UserError(
            f"{name!r} cannot be the name of a build: take letters, digits and . _ + -, and any name but {HERE}"
        )
    python = shutil.which(os.path.expanduser(path))
    if python is None:
        raise UserError(f"build {name}: there is no program {path!r}; give the path of a Python interpreter")
    # Not resolved: Python finds its virtual environment by the link.
    return name, os.path.abspath(python)


def _interpreter(name: str) -> Optional[str]:
    """The path of a build's interpreter; None if its record is damaged."""
    if name == HERE:
        return sys.executable
    if is_environment(name):
        return str(interpreter_in(folder_of(name)))
    record = read_record(name)
    return record.python if record else None


def _current(name: str) -> Optional[Build]:
    """The build as last probed, if nothing has changed since."""
    python = _interpreter(name)
    return read_current(name, python) if python else None


def _probed(name: str, python: str, tell: Tell) -> Build:
    tell(f"{name}: probing {python}")
    recipe = RECIPES.get(name)
    # In an environment with several engines, the recipe's engine counts.
    build = probe(name, python, recipe.engine if recipe else None)
    if recipe:
        recipe.check(build)
    return build


def _probed_own(name: str, python: str, tell: Tell) -> Build:
    try:
        return _probed(name, python, tell)
    except QuantkitError as error:
        raise UserError(str(error)) from error


def _probed_again(name: str, tell: Tell) -> Build:
    """Probe a build that exists and keep the result; the caller holds its lock."""
    remedy = "" if name == HERE else f"\nrepair it, or quantkit builds remove {name} and add it again"
    python = _interpreter(name)
    if python is None:
        raise QuantkitError(f"{folder_of(name)} is damaged{remedy}")
    try:
        build = _probed(name, python, tell)
    except QuantkitError as error:
        before = read_record(name)
        if before is not None:
            write_record(name, before, is_good=False)
        raise QuantkitError(f"{error}{remedy}") from error
    folder_of(name).mkdir(exist_ok=True)
    write_record(name, build)
    return build


def _made(name: str, python: Optional[str], tell: Tell) -> Build:
    """Make a recipe's build, replacing an older one; the caller holds its lock."""
    base = base_python(RECIPES[name], python)
    with whole_folder(folder_of(name)) as new:
        make_environment(RECIPES[name], new, base, tell)
        build = recorded(name, new, _probed(name, str(interpreter_in(new)), tell))
    return build


def _registered(name: str, python: str, tell: Tell) -> Build:
    with locked(name, tell):
        before = read_record(name)
        if before is not None and before.python != python:
            raise UserError(f"build {name} exists; quantkit builds remove {name} first, or take another name")
        build = _probed_own(name, python, tell)
        with whole_folder(folder_of(name)) as new:
            build = recorded(name, new, build)
        return build
