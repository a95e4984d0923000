"""``feed`` from the outside: what it measures, and what it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.errors import EngineMissing
from quantkit.host.load import Load
from tests.cli.conftest import SHAPE, Run
from tests.networks import DATA, Builder


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


def options(samples: Path) -> list[object]:
    return ["--data", samples, "--batch", 4, "--seconds", 0.5, "--input-shape", SHAPE]


def measured(run: Run, checkpoint: Path, samples: Path) -> dict[str, Any]:
    """A measurement as JSON."""
    document: dict[str, Any] = json.loads(run("feed", checkpoint, *options(samples), "--json", "--quiet").stdout)
    return document


def test_the_result_as_json(run: Run, quantizable: Path, samples: Path) -> None:
    result = measured(run, quantizable, samples)
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
    run: Run, quantizable: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import quantkit.evaluation.feed

    operators: list[str] = []

    class Recorded(quantkit.evaluation.feed.MxnetSession):
        def __init__(self, graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
            operators.extend(node.op for node in graph.nodes)
            super().__init__(graph, shapes)

    monkeypatch.setattr(quantkit.evaluation.feed, "MxnetSession", Recorded)
    measured(run, quantizable, samples)
    assert any("quantize" in operator for operator in operators)


def test_the_result_in_words(run: Run, quantizable: Path, samples: Path) -> None:
    printed = run("feed", quantizable, *options(samples))
    assert re.search(r"tiny \(quantized to INT8 for this\) over \d+ images of samples\.npz", printed.stdout)
    assert "INT8 network, batch 4" in printed.stdout
    assert sum(f"{verdict}: " in printed.stdout for verdict in ("FED", "STARVED", "NOT DISTINGUISHABLE")) == 1
    assert "decoding samples.npz for tiny (INT8)" in printed.stderr


def test_a_bundle_is_measured_as_it_is(run: Run, checkpoint: Path, samples: Path, tmp_path: Path) -> None:
    from quantkit.bundle import write_float_bundle
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model

    bundle = tmp_path / "fused"
    write_float_bundle(fuse_model(load_model(str(checkpoint), input_shape=(3, 16, 16)), str(samples)), bundle)
    common = ["feed", bundle, "--data", samples, "--batch", 4, "--seconds", 0.5]
    result = json.loads(run(*common, "--json").stdout)
    assert (result["network"], result["form"], result["kind"]) == (str(bundle), "bundle", "fp32")
    assert re.search(r"\(FP32 bundle\) over \d+ images", run(*common).stdout)
    refused = run(*common, "--input-shape", SHAPE)
    assert refused.exit_code == 2 and "has its own; leave --input-shape out" in refused.stderr


def test_vectors_are_loaded_and_have_words_of_their_own(run: Run, engine: None, tmp_path: Path) -> None:
    from quantkit.backends.mxnet.symbols import symbol_of
    from quantkit.bundle import write_float_bundle
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.ir.graph import Graph
    from quantkit.models.load import load_model

    b = Builder()
    scores = b.dense("dense", DATA, 24, 6)
    graph = Graph(tuple(b.nodes), ("data",), (scores,), b.params)
    vectors = b.random.normal(size=(23, 24)).astype(np.float32)
    np.savez(tmp_path / "vectors.npz", x=vectors)
    model = load_model(symbol_of(graph), params=graph.params, input_shape=(24,))
    write_float_bundle(fuse_model(model, vectors), tmp_path / "fused")
    done = run("feed", "fused", "--data", "vectors.npz", "--batch", 4, "--seconds", 0.5)
    assert done.exit_code == 0, done.stderr
    printed = " ".join(f"{done.stdout} {done.stderr}".split())
    assert re.search(r"\(FP32 bundle\) over \d+ samples of vectors\.npz", printed)
    for words in ("samples/s", "loading again, 1 worker", "network over loaded samples", "one sample: loading"):
        assert words in printed
    assert not re.search(r"\bimages?\b|decod", printed)


def test_what_others_did_meanwhile_is_a_warning(
    run: Run, quantizable: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.host.load.load_between", lambda *_: Load(90.0, 40.0, 0.5))
    stolen, busy = measured(run, quantizable, samples)["warnings"]
    assert stolen.startswith("the hypervisor took 40.00 cores")
    # The network and decoding, which are no work of others, used something, too.
    assert 0 < float(busy.split()[3]) < 49.9
    assert f"warning: {stolen}" in run("feed", quantizable, *options(samples)).stdout


def test_an_engine_without_int8_is_named_at_once(
    run: Run, checkpoint: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quantkit.backends.mxnet import build

    obstructed = replace(build.installed(), int8_obstacle="this processor cannot; use another")
    monkeypatch.setattr(build, "installed", lambda: obstructed)
    result = run("feed", checkpoint, *options(samples))
    assert result.exit_code == EngineMissing.exit_code
    assert result.stderr == "Error: this processor cannot; use another\n"


def test_data_that_do_not_exist(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    result = run("feed", checkpoint, *options(tmp_path / "nothing"), "--quiet")
    assert result.exit_code == 2 and "there is no sample data" in result.stderr


def trained(run: Run, checkpoint: Path, data: Path, *more: object) -> Any:
    return run(
        "feed", checkpoint, "--data", data, "--batch", 4, "--seconds", 0.5, "--input-shape", SHAPE, "--training", *more
    )


def test_a_training_is_measured_with_its_augmentation(run: Run, engine: None, checkpoint: Path, photos: Path) -> None:
    asked = ("--freeze", "body", "--smallest-crop", 0.5, "--workers", 2, "--mean", "0.5", "--std", "0.25")
    done = trained(run, checkpoint, photos, *asked)
    assert done.exit_code == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert re.search(r"tiny \(FP32, in training\) over 36 of 36 images of photos", printed)
    rows = ("preparing again, 2 workers", "FP32 network in training, batch 4", "network over prepared images")
    for words in (*rows, "one image: decoding", "varying and preprocessing"):
        assert words in printed
    result = json.loads(trained(run, checkpoint, photos, *asked, "--json", "--quiet").stdout)
    assert (result["form"], result["kind"], result["batch"], result["workers"]) == ("trained", "fp32", 4, 2)
    made = result["training"]
    assert (made["freeze"], made["augmentation"]["smallest_crop"], made["classes"]) == (["body"], 0.5, 7)
    assert (made["samples"], made["kept_in_memory"]) == (36, 1)
    (photos / "red" / "00.png").write_bytes(b"no image")
    refused = trained(run, checkpoint, photos, *asked)
    assert refused.exit_code == 2 and "00.png" in refused.stderr
    assert trained(run, checkpoint, photos, *asked, "--skip-bad", 1, "--classes", 3).exit_code == 0


def test_options_of_trainings_are_for_trainings(
    run: Run, engine: None, checkpoint: Path, samples: Path, tmp_path: Path
) -> None:
    for option in (("--freeze", "body"), ("--workers", 2), ("--colour", 0.5)):
        refused = run("feed", checkpoint, *options(samples), *option)
        assert refused.exit_code == 2 and f"{option[0]} is for a training; give --training, too" in refused.stderr
    refused = trained(run, checkpoint, samples, "--colour", 0.5)
    assert refused.exit_code == 2 and "--colour varies images, and samples.npz holds arrays" in refused.stderr
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "manifest.json").touch()
    refused = run("feed", tmp_path / "bundle", "--data", samples, "--training")
    assert refused.exit_code == 2 and "is a bundle; give the FP32 network it was made from" in refused.stderr
