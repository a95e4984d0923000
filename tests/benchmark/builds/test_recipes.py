from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.builds.environments import add_build, list_builds, open_build, remove_build
from quantkit.benchmark.builds.recipes import RECIPES
from quantkit.errors import QuantkitError, UserError
from tests.benchmark.interpreters import Fake


def test_recipes_have_the_versions_that_the_extras_have() -> None:
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(RECIPES["peers"].wheels) == set(extras["peers"])
    assert {*RECIPES["onnxruntime"].wheels, *RECIPES["openvino"].wheels} <= {
        wheel.replace("[quantization,symbolic]", "") for wheel in extras["peers"]
    }
    assert RECIPES["onednn"].wheels[0] in extras["onednn"]


def test_only_the_quantizers_of_others_bring_along_what_they_depend_on(fake: Fake) -> None:
    for name in ("native", "onnxruntime", "peers"):
        fake.behave(install="exit:no index")
        with pytest.raises(QuantkitError) as caught:
            open_build(name)
        (pip,) = [call["arguments"] for call in fake.calls() if call["step"] == "install"]
        assert ("--no-deps" in pip) == ("--no-deps" in str(caught.value)) == (name != "peers")
        assert set(RECIPES[name].wheels) < set(pip)


@pytest.mark.parametrize("step", ["venv", "install", "uninstall", "probe"])
def test_what_fails_leaves_nothing_and_says_why(fake: Fake, step: str) -> None:
    fake.behave(**{step: "exit:the last words"})
    with pytest.raises(QuantkitError, match=r"(?s)exit code 3.*\n    the last words") as caught:
        open_build("native")
    assert caught.value.exit_code == 1
    assert fake.left() == []
    assert {each.name: each.state for each in list_builds()}["native"] == "not made"


def test_without_an_index_the_error_says_what_to_install_where(fake: Fake) -> None:
    fake.behave(install="exit:ERROR: No matching distribution found for mxnet==1.5.0")
    with pytest.raises(QuantkitError) as caught:
        open_build("native")
    for words in (
        "ERROR: No matching", "mxnet==1.5.0 numpy==1.26.4", "PIP_FIND_LINKS", "PIP_INDEX_URL", "native=/path/to/python"
    ):  # fmt: skip
        assert words in str(caught.value)


def test_pip_gets_its_own_settings_but_not_another_target(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PIP_FIND_LINKS": "wheels", "PIP_TARGET": "elsewhere", "PYTHONPATH": "modules"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_RETRIES", raising=False)
    open_build("native")
    seen = {call["step"]: call["environment"] for call in fake.calls()}
    assert seen["install"]["PIP_FIND_LINKS"] == "wheels"
    assert seen["install"]["PIP_RETRIES"] == "1"
    assert "PIP_TARGET" not in seen["install"]
    monkeypatch.setenv("PIP_RETRIES", "9")
    remove_build("native")
    open_build("native")
    assert {call["step"]: call["environment"] for call in fake.calls()}["install"]["PIP_RETRIES"] == "9"


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"version": [3, 13]}, r"Python 3.13.*with Python 3.11 alone"),
        ({"version": [3, 10]}, r"Python 3.10.*with Python 3.11 alone"),
        ({"abi": "cpython-311-darwin"}, "Linux, x86-64"),
        ({"abi": "cpython-311-aarch64-linux-gnu"}, "Linux, x86-64"),
        ({"abi": "cpython-311-x86_64-linux-musl"}, "glibc"),
        ({"abi": "pypy39-pp73-x86_64-linux-gnu"}, "CPython"),
    ],
)
def test_where_the_wheels_cannot_run_none_is_fetched(fake: Fake, about: dict[str, Any], words: str) -> None:
    fake.behave(about_facts=about)
    with pytest.raises(UserError, match=words):
        open_build("native")
    assert fake.steps() == ["about"]


@pytest.mark.parametrize("python", ["/bin/true", "/nowhere/python", "/"])
def test_a_base_that_is_no_interpreter_is_refused(fake: Fake, python: str) -> None:
    with pytest.raises(UserError, match="--python"):
        add_build("native", python=python)


def test_a_build_is_made_with_the_interpreter_that_is_named(fake: Fake) -> None:
    other = fake.make("other")
    assert os.path.realpath(add_build("native", python=other).python) == other
    add_build("native", python=other)
    with pytest.raises(UserError, match="quantkit builds remove native"):
        add_build("native", python=fake.python)
