"""``benchmark --test-io``: its verdict, its advice, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest

from quantkit.cli import feed as feed_module
from quantkit.cli.feed import advice, run_test_io
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work
from quantkit.data.preprocess import Preprocess
from quantkit.errors import DataError, EngineMissing
from quantkit.evaluation.feed import Feed, Images, Rate
from quantkit.host.load import Load

PREPROCESS = Preprocess(256, 224, (0, 0, 0), (1, 1, 1))


def feed(
    one: float = 100,
    every: float = 400,
    network: float = 300,
    together: float = 290,
    first: float = 390,
    side: int = 300,
    stored: Optional[int] = 10**6,
) -> Feed:
    one_, every_, network_, together_ = (
        Rate((rate * 0.99, rate, rate * 1.01)) for rate in (one, every, network, together)
    )
    return Feed(Images(20, side, 5.0, 1.0), 400, 8, 4, first, stored, one_, every_, network_, together_, 0.1)


def test_a_fed_network_needs_no_advice() -> None:
    assert feed().verdict == "fed"
    assert advice(feed(), PREPROCESS) == []


def test_a_starved_network_is_told_the_remedies() -> None:
    found = advice(feed(network=1250, together=390), PREPROCESS)
    assert len(found) == 2
    assert found[0].startswith("at least 13 decoding workers would have to run at once")
    assert ".npz" in found[1]


def test_fewer_workers_than_there_are_need_no_mention() -> None:
    starved = feed(one=100, every=150, network=300, together=150)
    assert not any("workers" in each for each in advice(starved, PREPROCESS))


@pytest.mark.parametrize(("side", "named"), [(380, False), (1200, True)])
def test_oversized_images_are_named(side: int, named: bool) -> None:
    found = advice(feed(network=1250, together=390, side=side), PREPROCESS)
    assert any("short side is 1200 pixels, 256 are needed" in each for each in found) == named


@pytest.mark.parametrize("preprocess", [None, replace(PREPROCESS, resize=None, crop=None)])
def test_nothing_is_needed_where_nothing_is_resized(preprocess: Optional[Preprocess]) -> None:
    assert not any("short side" in each for each in advice(feed(network=1250, together=390, side=5000), preprocess))


def test_arrays_cannot_be_decoded_faster() -> None:
    starved = feed(network=1250, together=390)
    assert advice(replace(starved, images=replace(starved.images, short_side=None)), None) == []


@pytest.mark.parametrize(("first", "words"), [(250, "too few for the network"), (310, "enough for the network")])
def test_a_cold_first_reading_is_told(first: float, words: str) -> None:
    (found,) = advice(feed(first=first), PREPROCESS)
    assert f"with 1.0 MB from storage, gave {first} images/s, {words}; cached files gave 400" in found
    assert ".rec" in found


@pytest.mark.parametrize("stored", [0, None])
def test_a_slow_first_reading_of_cached_files_is_not_blamed_on_storage(stored: Optional[int]) -> None:
    assert advice(feed(first=250, stored=stored), PREPROCESS) == []


@pytest.mark.parametrize(("waiting", "longer"), [(0.1, "1.8"), (0.5, "1")])
def test_of_a_slow_common_run_only_the_figures_are_told(waiting: float, longer: str) -> None:
    (found,) = advice(replace(feed(together=150), waiting=waiting), PREPROCESS)
    assert found.startswith("both at once reach 50.0 % of what the slower one reaches alone: ")
    assert f"waited for images {100 * waiting:.1f} % of the time, and its runs took {longer} times as long" in found


def test_a_common_run_as_fast_as_the_slower_one_alone_needs_no_advice() -> None:
    starved = feed(every=150, network=300, together=145)
    assert not any("both at once" in each for each in advice(starved, PREPROCESS))


def test_no_remedies_where_the_network_may_not_starve() -> None:
    found = replace(feed(network=1250, together=390), all_workers=Rate((400.0, 400.0, 1260.0)))
    assert found.verdict == "not distinguishable"
    assert advice(found, PREPROCESS) == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A place of their own for the checkpoints that are made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUANTKIT_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def quantizable(int8_engine: None, home: None, checkpoint: Path) -> Path:
    """A checkpoint that this engine can run in INT8."""
    return checkpoint


def measure(terminal: Terminal, checkpoint: Path, samples: Path) -> None:
    run_test_io(terminal, str(checkpoint), str(samples), 4, "auto", (3, 16, 16), seconds=0.5)


def shown(terminal: Terminal, checkpoint: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> str:
    measure(terminal, checkpoint, samples)
    return capsys.readouterr().out


QUIET_JSON = Terminal(Work(), json=True, quiet=True)


def test_the_result_as_json(quantizable: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(shown(QUIET_JSON, quantizable, samples, capsys))
    assert (result["network"], result["kind"], result["form"]) == ("tiny", "int8", "quantized")
    assert (result["batch"], result["images"]) == (4, 23)
    rates = result["images_per_second"]
    assert set(rates) == {"first_pass", "one_worker", "all_workers", "network", "together"}
    for rate in (rates[name] for name in rates if name != "first_pass"):
        assert len(rate["rounds"]) == 5
        assert 0 < rate["low"] <= rate["median"] <= rate["high"]
    decoding, network = rates["all_workers"], rates["network"]
    assert result["decoded_per_read"] == pytest.approx(decoding["median"] / network["median"])
    firm = "fed" if decoding["low"] > network["high"] else "starved" if network["low"] > decoding["high"] else None
    assert result["verdict"] == (firm or "not distinguishable")
    assert result["short_side"] is None


def test_a_network_is_measured_in_int8(
    quantizable: Path, samples: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import quantkit.evaluation.feed

    operators: list[str] = []

    class Recorded(quantkit.evaluation.feed.Executor):
        def __init__(self, graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
            operators.extend(node.op for node in graph.nodes)
            super().__init__(graph, shapes)

    monkeypatch.setattr(quantkit.evaluation.feed, "Executor", Recorded)
    shown(QUIET_JSON, quantizable, samples, capsys)
    assert any("quantize" in operator for operator in operators)


def test_the_result_in_words(quantizable: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(Terminal(Work()), quantizable, samples)
    printed = capsys.readouterr()
    assert "tiny (quantized to INT8 for this) over 23 images of samples.npz" in printed.out
    assert "INT8 network, batch 4" in printed.out
    assert sum(f"{verdict}: " in printed.out for verdict in ("FED", "STARVED", "NOT DISTINGUISHABLE")) == 1
    assert "decoding samples.npz for tiny (INT8)" in printed.err


def test_a_bundle_is_measured_as_it_is(
    checkpoint: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from quantkit.bundle import write_float_bundle
    from quantkit.models.load import load_model
    from quantkit.stages.fuse import fuse_model

    bundle = tmp_path / "fused"
    write_float_bundle(fuse_model(load_model(str(checkpoint), input_shape=(3, 16, 16)), str(samples)), bundle)
    result = json.loads(shown(QUIET_JSON, bundle, samples, capsys))
    assert (result["network"], result["form"], result["kind"]) == (str(bundle), "bundle", "fp32")
    assert "(FP32 bundle) over 23 images" in shown(Terminal(Work()), bundle, samples, capsys)


def test_what_others_did_meanwhile_is_a_warning(
    quantizable: Path, samples: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "load_between", lambda *_: Load(90.0, 40.0, 0.5))
    result = json.loads(shown(QUIET_JSON, quantizable, samples, capsys))
    stolen, busy = result["warnings"]
    assert stolen.startswith("the hypervisor took 40.00 cores")
    # The network and decoding, which are no work of others, used something, too.
    assert 0 < float(busy.split()[3]) < 49.9
    assert f"warning: {stolen}" in shown(Terminal(Work()), quantizable, samples, capsys)


def test_an_engine_without_int8_is_named_at_once(
    checkpoint: Path, samples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from quantkit.engine import build

    obstructed = replace(build.installed(), int8_obstacle="this processor cannot; use another")
    monkeypatch.setattr(build, "installed", lambda: obstructed)
    with pytest.raises(EngineMissing, match="this processor cannot; use another"):
        measure(Terminal(Work()), checkpoint, samples)
    assert capsys.readouterr().err == ""


def test_data_that_do_not_exist(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no sample data"):
        measure(Terminal(Work(), quiet=True), checkpoint, tmp_path / "nothing")
