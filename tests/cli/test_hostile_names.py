"""Names that rich would take for markup, and codes of emoji: every verb prints them as they stand."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from PIL import Image

import quantkit
from quantkit.backends.mxnet.peak import Peak
from quantkit.backends.mxnet.profiler import Recording
from quantkit.benchmark.results.results import LeftOut
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work
from quantkit.ir.graph import Graph
from tests.benchmark.interpreters import Fake
from tests.cli.conftest import CLASSES, ListedCards, runner
from tests.cli.test_report import stored
from tests.diagnosis.profile import recordings
from tests.report.showcase import HOSTILE as CONTROLS
from tests.report.synthetic import INT8, NATIVE, failed, results, served
from tests.requirements import requires

NAME = "[/x][red]:bug:größe层"
"""An end of markup that nothing began, a colour, a picture, and what is not ASCII."""

FILE = "[bold][red]:bug:"

NETWORK = f"""
name = "{NAME}"
symbol = "{FILE}-symbol.json"
params = "{FILE}-0000.params"
input_shape = [3, 16, 16]
classes = {CLASSES}
labels = "{FILE}.txt"

[preprocess]
fit = "stretch"
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]
"""
CARD, DATA, BUNDLE = f"{FILE}.toml", f"{FILE}.npz", f"{FILE}-bundle"

OF_A_NETWORK = {
    "finetune": [CARD, "--train", DATA, "--out", f"{FILE}-tuned", "--epochs", 1, "--batch-size", 8],
    "calibrate": [CARD, "--calib-data", DATA, "--out", f"{FILE}.json"],
    "fuse": [CARD, "--calib-data", DATA, "--out", f"{FILE}-fused", "--no-latency"],
}
OF_A_BUNDLE = {
    "explain": [BUNDLE],
    "evaluate": [BUNDLE, "--data", DATA, "--reference", CARD, "--against", BUNDLE],
    "analyze": [BUNDLE, "--data", DATA, "--reference", CARD, "--out", f"{FILE}-why"],
    "profile": [BUNDLE, "--out", f"{FILE}-trace"],
    "verify": [BUNDLE],
    "feed": [BUNDLE, "--data", DATA, "--batch", "4", "--seconds", "0.2"],
    "predict": [BUNDLE, f"{FILE}.png"],
}
WITH_ONNX = {
    "export": [BUNDLE, "--out", f"{FILE}.onnx"],
    "verify": [BUNDLE, "--engine", "reference", "--data", DATA, "--num-samples", "4", "--layers"],
}
OTHERWISE = {
    "quantize",
    "models",
    "doctor",
    "builds",
    "benchmark",
    "report",
    "compare",
    "cache",
    "pack",
    "tune",
    "serve",
    "watch",
}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which no name is broken."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture(scope="module")
def folder(checkpoint: Path, samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A card, a checkpoint whose nodes have such names, and images."""
    folder = tmp_path_factory.mktemp("hostile")
    symbol = json.loads(Path(f"{checkpoint}-symbol.json").read_text())
    for node in symbol["nodes"]:
        if node["op"] != "null":
            node["name"] += NAME
    (folder / f"{FILE}-symbol.json").write_text(json.dumps(symbol))
    (folder / f"{FILE}.txt").write_text("".join(f"{NAME}{number}\n" for number in range(CLASSES)))
    (folder / CARD).write_text(NETWORK)
    shutil.copy(f"{checkpoint}-0000.params", folder / f"{FILE}-0000.params")
    shutil.copy(samples, folder / DATA)
    Image.new("RGB", (16, 16)).save(folder / f"{FILE}.png")
    return folder


Ran = Callable[..., str]


@pytest.fixture
def printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """What a verb prints in the folder, once it is clear that nothing in it was taken for markup."""
    from quantkit.cli.main import cli

    monkeypatch.chdir(folder)

    def run(*arguments: Any) -> str:
        done = runner().invoke(cli, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.stderr
        return as_they_stand(done.stdout)

    return run


def as_they_stand(text: str) -> str:
    """A text that is known to hold names, and no markup of ours that was printed instead of shown."""
    assert NAME in text or FILE in text
    ours = text.replace(NAME, "").replace(FILE, "")
    assert not re.search(r"\[/?(bold|dim|red|green|yellow|cyan)?( red| green| yellow)?\]", ours)
    return text


@pytest.fixture(scope="module")
def bundle(int8_engine: None, folder: Path) -> Iterator[str]:
    """The INT8 bundle, and what ``quantize`` printed."""
    from quantkit.cli.main import cli

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "400")
        command = ["quantize", CARD, "--calib-data", DATA, "--calib", "8", "--preset", "none", "--out", BUNDLE]
        done = runner().invoke(cli, [*command, "--exclude", "dense*", "--no-latency"])
    assert done.exit_code == 0, done.stderr
    yield done.stdout


def test_every_verb_is_tried() -> None:
    from quantkit.cli.main import cli

    assert {*OF_A_NETWORK, *OF_A_BUNDLE, *WITH_ONNX, *OTHERWISE} == set(cli.list_commands(click.Context(cli)))


@pytest.mark.parametrize("verb", OF_A_NETWORK)
def test_verbs_of_networks(printed: Ran, engine: None, verb: str) -> None:
    printed(verb, *OF_A_NETWORK[verb])


def test_quantize(bundle: str) -> None:
    as_they_stand(bundle)


@pytest.mark.parametrize("verb", OF_A_BUNDLE)
def test_verbs_of_bundles(printed: Ran, bundle: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.diagnosis.profile.measure.measured_peak", lambda: Peak(400.0, 100.0))
    monkeypatch.setattr("quantkit.diagnosis.profile.measure.record", _recorded)
    printed(verb, *OF_A_BUNDLE[verb])


def _recorded(graph: Graph, *_: Any) -> Recording:
    """A millisecond for each operator: processes that record take their time, and are tested elsewhere."""
    nodes = graph.nodes
    seen = recordings.run(len(nodes) + 1.0, [1.0] * len(nodes), [node.op for node in nodes])
    return recordings.recording(seen, executed=[node.name for node in nodes])


@pytest.mark.parametrize("verb", WITH_ONNX)
def test_verbs_that_write_onnx(printed: Ran, bundle: str, verb: str) -> None:
    requires("onnx")
    printed(verb, *WITH_ONNX[verb])


def test_what_a_bundle_says_of_operators_and_outputs(printed: Ran, bundle: str, folder: Path) -> None:
    """Where the manifest fits a bundle of somebody else's, these hold what they like."""
    from quantkit.files.files import sha256_of

    other = Path(shutil.copytree(folder / BUNDLE, folder / f"{FILE}-other"))
    told = json.loads((other / "operators.json").read_text())
    for row in told:
        row["operator"] += NAME
    (other / "operators.json").write_text(json.dumps(told))
    manifest = json.loads((other / "manifest.json").read_text())
    path = other / "operators.json"
    manifest["files"]["operators.json"] = {"sha256": sha256_of(path), "size": path.stat().st_size}
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert f"Convolution{NAME}" in printed("explain", other)


def test_random_weights_are_an_alarm_all_the_same(engine: None, capsys: pytest.CaptureFixture[str]) -> None:
    from quantkit.cli.networks import warn_of_bundle

    warn_of_bundle(Terminal(Work()), NAME, "random")
    assert f"{NAME} was never trained" in capsys.readouterr().err


def test_models(printed: Ran, listed_cards: ListedCards) -> None:
    from quantkit.models.card import cards

    known = [replace(each, name=NAME, aliases=(NAME,), description=NAME, input_shape=(3, 16, 16)) for each in cards()]
    listed_cards(lambda: known[:1])
    printed("models")
    printed("models", "--long")


def test_doctor(printed: Ran, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from quantkit.host import report
    from quantkit.host.diagnose import Finding

    monkeypatch.setattr(report, "diagnose", lambda facts: (Finding(NAME, "warn", NAME, NAME),))
    assert printed("doctor").count(NAME) == 3


def test_builds(printed: Ran, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    from quantkit.benchmark.builds import environments
    from quantkit.benchmark.builds.environments import BuildState

    state = BuildState(NAME, NAME, "broken", None, NAME)
    monkeypatch.setattr(environments, "list_builds", lambda progress: [state])
    assert printed("builds", "list").count(NAME) == 4


def test_what_is_told_of_benchmarks(printed: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from quantkit.cli.speed import tables

    evil, server = replace(INT8, name=NAME), replace(INT8, name=f"{NAME}2")
    given = results((NAME,), (1, 2), (NATIVE, evil), {"native": 1.0, NAME: 3.0}, title=NAME, warnings=(NAME,))
    given = replace(
        given,
        run=replace(given.run, left_out=(LeftOut(NAME, 8, NAME, NAME),), contestants=(NATIVE, evil, server)),
    )
    cells = (*given.cells, failed(NAME, 4, evil, NAME, [NAME]), served(NAME, server, 90.0))
    whole = stored(replace(given, cells=cells), tmp_path / FILE)
    printed("report", whole, "--out", tmp_path / f"{FILE}-report")
    printed("compare", whole, whole)
    Terminal(Work()).show({}, *tables(replace(given, cells=cells)))
    assert as_they_stand(capsys.readouterr().out).count(NAME) > 8


def test_what_is_told_of_a_goal(capsys: pytest.CaptureFixture[str]) -> None:
    from quantkit.cli.mixed import mixed_tables

    check = {"drop": 0.1, "interval": [0, 1], "divergence": 0.5, "latency_ms": 1, "extra_ms": 1, "noise_ms": 0,
             "speedup": 2, "score": 0.9}  # fmt: skip
    layer = {"layer": NAME, "operator": NAME, "gain": 0.5, "cost_ms": 1, "noise_ms": 0}
    search = {"layers": [layer], "measure": "top-1", "images": 3, "data": NAME, "fp32": 1, "all_int8": check,
             "mixed": check, "goal": {"max_drop": 1, "min_speedup": None}, "time_is_up": False}  # fmt: skip
    Terminal(Work()).show({}, *mixed_tables(search, "image"))
    assert as_they_stand(capsys.readouterr().out).count(NAME) == 3


def test_neither_colours_nor_the_reading_direction_come_from_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    for text in (CONTROLS, "\x1b[31mred", "a\u2028b\u2066c"):
        for terminal in (Terminal(Work()), Terminal(Work(), json=True)):
            terminal.show({"name": text}, text)
            terminal.warn(text)
        out, err = capsys.readouterr()
        assert not set(out + err) & set("\x1b\u202e\u2028\u2066")


def test_there_is_no_other_way_to_the_terminal() -> None:
    package = Path(quantkit.__file__).parent
    ways = re.compile(r"rich\.(console|markup)|from_markup|rich import print")
    assert [path.name for path in package.rglob("*.py") if ways.search(path.read_text())] == ["console.py"]
