"""Who reads a bundle while others are put in its place reads one of them whole."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit import load
from quantkit.bundle import BUNDLE, read_bundle, verify_bundle, write_float_bundle
from quantkit.bundle.file_names import REQUIRED
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.replaced import reading_whole
from quantkit.cli.networks import open_network
from quantkit.cli.option_groups import Loading
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work
from quantkit.errors import BundleError
from quantkit.files.folders import replacing
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.fused_model import FusedModel


def put(source: Path, target: Path) -> None:
    with replacing(target, True, BUNDLE) as new:
        shutil.copytree(source, new, dirs_exist_ok=True)


class Moments:
    """Has something happen before a file of a folder is opened, the ``due``-th of those that are."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder) + os.sep
        self.due, self.seen, self.happen = 0, 0, lambda: None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(details[0], (str, Path)) and str(details[0]).startswith(self.folder):
            self.seen += 1
            if self.seen == self.due:
                self.happen()

    def each(self, happen: Callable[[], None]) -> Iterator[int]:
        """Have it happen at the first file, at the second, and so on, as long as there are so many."""
        self.happen = happen
        for self.due in itertools.count(1):
            self.seen = 0
            yield self.due
            if self.seen < self.due:
                break
        self.due = 0


@pytest.fixture(scope="module")
def bundles(
    digits_int8: QuantizedModel, digits_fused: FusedModel, tmp_path_factory: pytest.TempPathFactory
) -> Sequence[Path]:
    """The network in INT8 and in FP32. Do not alter them."""
    folder = tmp_path_factory.mktemp("bundles")
    return digits_int8.save(folder / "int8"), write_float_bundle(digits_fused, folder / "fp32")


@pytest.fixture
def target(bundles: Sequence[Path], tmp_path: Path) -> Path:
    put(bundles[0], tmp_path / "out")
    return tmp_path / "out"


def replacements(target: Path, bundles: Sequence[Path]) -> Iterator[None]:
    """At each moment of what is done between two turns, the other of the two bundles is put in the target's place."""
    others = itertools.cycle(bundles[::-1])
    moments = Moments(target)
    for _ in moments.each(lambda: put(next(others), target)):
        yield
    assert moments.seen > len(REQUIRED)


def test_a_predictor_is_of_one_bundle(bundles: Sequence[Path], target: Path) -> None:
    image = np.random.default_rng(0).normal(0, 1, (1, *load(target).manifest.input.shape)).astype(np.float32)
    expected = {load(each).manifest.kind: load(each).predict(image) for each in bundles}
    for _ in replacements(target, bundles):
        predictor = load(target)
        assert np.array_equal(predictor.predict(image), expected[predictor.manifest.kind])


def test_a_network_to_evaluate_is_of_one_bundle(bundles: Sequence[Path], target: Path) -> None:
    expected = {read_bundle(each).manifest.kind: nnvm.serialize(read_bundle(each).graph) for each in bundles}
    for _ in replacements(target, bundles):
        network = open_network(Terminal(Work(), quiet=True), str(target), Loading())
        assert nnvm.serialize(network.graph) == expected[network.kind]


def test_a_verification_is_of_one_bundle(bundles: Sequence[Path], target: Path) -> None:
    for _ in replacements(target, bundles):
        assert verify_bundle(target).ok


@pytest.mark.parametrize("part", ["graph", "table", "operators", "sample"])
def test_what_is_read_of_a_bundle_later_is_not_another_ones(part: str, bundles: Sequence[Path], target: Path) -> None:
    bundle = read_bundle(target)
    put(bundles[1], target)
    with pytest.raises(BundleError, match="was replaced by another bundle while it was read; begin again"):
        getattr(bundle, part)
    put(bundles[0], target)
    assert getattr(bundle, part) is not None


def test_errors_of_a_bundle_that_stays_are_raised_at_once(tmp_path: Path) -> None:
    reads = []

    def fail() -> None:
        reads.append(1)
        raise BundleError("damaged")

    with pytest.raises(BundleError, match="damaged"):
        reading_whole(tmp_path, fail)
    assert len(reads) == 1


def test_a_bundle_that_never_stays_is_given_up(tmp_path: Path) -> None:
    def replaced() -> None:
        with (tmp_path / "manifest.json").open("a") as file:
            file.write("x")

    with pytest.raises(BundleError, match="was replaced each time"):
        reading_whole(tmp_path, replaced)
