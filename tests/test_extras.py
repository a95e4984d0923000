"""The packages of extras: named as pyproject.toml has them, and to those who lack them."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from quantkit.errors import EngineMissing, ExtraMissing
from quantkit.extras import EXTRAS, missing_packages, require, using

PROJECT: Any = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[=<>~! ]", each)[0] for each in requirements}


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_table_has_the_packages_that_the_project_declares(extra: str) -> None:
    # The engines' extras bring further packages that others' work needs as well.
    assert EXTRAS[extra].keys() <= names(DECLARED[extra])
    if extra not in ("onednn", "mkl"):
        assert EXTRAS[extra].keys() == names(DECLARED[extra])


@pytest.mark.parametrize("engine", ["onednn", "mkl"])
def test_an_engine_brings_the_samples_and_what_quantizing_needs(engine: str) -> None:
    assert {"quantkit[samples]", "numpy==1.26.4"} < {*DECLARED[engine]}
    assert {"scipy", "packaging"} < names(DECLARED[engine])


def test_all_is_all_but_mxnet_and_what_builds_beside_it() -> None:
    (every,) = DECLARED["all"]
    assert set(re.findall(r"[\w-]+", every)) - {"quantkit"} == EXTRAS.keys() - {"onednn", "mkl", "horovod"}


def test_no_package_of_an_extra_is_needed_by_all() -> None:
    assert not names(PROJECT["dependencies"]) & {package for packages in EXTRAS.values() for package in packages}


def test_what_cannot_be_imported_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlperf_loadgen", None)
    message = r"^servers need the package mlcommons-loadgen \(.*\); install it: pip install 'quantkit\[benchmark\]'$"
    with pytest.raises(ExtraMissing, match=message) as caught, using("benchmark", "servers"):
        import mlperf_loadgen  # noqa: F401
    assert caught.value.exit_code == 2


def test_an_engine_that_cannot_be_imported_is_a_missing_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(EngineMissing, match=r"quantkit\[openvino\]"), using("openvino", "networks", EngineMissing):
        import openvino  # noqa: F401


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), using("report", "reports"):
        _ = 1 / 0


def test_what_is_not_installed_is_told_without_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.extras.find_spec", lambda module: None if module == "skimage" else module)
    assert missing_packages("samples") == ("scikit-image",)
    require("samples", "sklearn", "digits")
    with pytest.raises(ExtraMissing, match=r"^crops need .* scikit-image; .*'quantkit\[samples\]', or give your own$"):
        require("samples", "skimage", "crops", "give your own")
