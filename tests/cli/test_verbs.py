"""The other verbs: explain, fuse, calibrate, verify, models, doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SHAPE, Run


def test_explain_accounts_for_every_operator(run: Run, checkpoint: Path, samples: Path) -> None:
    command = ["explain", checkpoint, "--input-shape", SHAPE, "--calib-data", samples]
    result = json.loads(run(*command, "--json").stdout)
    rows = {row["node"]: row for row in result["operators"]}
    assert list(rows) == ["first", "normal", "stem", "branch", "sum", "joined", "pooled", "flat", "dense"]
    assert [rows[name]["into"] for name in ("first", "normal", "branch", "sum")] == ["stem", "stem", "joined", "joined"]
    assert rows["pooled"]["precision"] == "fp32"
    assert rows["pooled"]["reason"]
    assert sum(result["counts"].values()) == len(rows)
    printed = run(*command).stdout
    assert all(name in printed for name in rows)


def test_explain_reads_a_bundle_as_it_was_made(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> None:
    common = ["--input-shape", SHAPE, "--calib-data", samples, "--exclude", "dense"]
    assert run("quantize", checkpoint, *common, "--out", "b", "--no-latency").exit_code == 0
    of_bundle, of_model = run("explain", "b", "--json"), run("explain", checkpoint, *common, "--json")
    assert json.loads(of_bundle.stdout)["operators"] == json.loads(of_model.stdout)["operators"]


def test_explain_filters_by_name(run: Run, checkpoint: Path, samples: Path) -> None:
    command = ["explain", checkpoint, "--input-shape", SHAPE, "--calib-data", samples]
    rows = json.loads(run(*command, "--node", "*n*", "--json").stdout)["operators"]
    assert [row["node"] for row in rows] == ["normal", "branch", "joined", "dense"]
    assert run(*command, "--node", "nothing").exit_code == 2


def test_fuse_writes_a_float_bundle_that_evaluates_like_the_original(run: Run, checkpoint: Path, samples: Path) -> None:
    common = ["--input-shape", SHAPE]
    result = run("fuse", checkpoint, *common, "--calib-data", samples, "--out", "f", "--no-latency", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["check"]["changed_predictions"] == 0
    assert sum(document["applied"].values()) > 0
    same = run("evaluate", "f", "--data", samples, "--reference", checkpoint, *common, "--json")
    assert json.loads(same.stdout)["kind"] == "fp32"
    document = json.loads(same.stdout)["agreement"]
    assert (document["top1"], document["cosine"]) == (1.0, pytest.approx(1.0, abs=1e-6))


def test_calibrate_lists_the_extremes_of_its_table(run: Run, checkpoint: Path, samples: Path, tmp_path: Path) -> None:
    command = ["calibrate", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--out", "t.json", "--json"]
    document = json.loads(run(*command).stdout)
    ranges = json.loads((tmp_path / "t.json").read_text())["ranges"]
    widths = {name: high - low for name, (low, high) in ranges.items()}
    assert document["tensors"] == len(ranges)
    assert document["widest"][0]["tensor"] == max(widths, key=widths.__getitem__)
    assert document["narrowest"][0]["tensor"] == min(widths, key=widths.__getitem__)
    assert run(*command).exit_code == 2
    assert run(*command, "--force").exit_code == 0


def test_verify_tells_a_sound_bundle_from_an_altered_one(
    run: Run, checkpoint: Path, samples: Path, tmp_path: Path
) -> None:
    run("fuse", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--out", "f", "--no-latency")
    sound = run("verify", "f", "--json")
    assert (sound.exit_code, json.loads(sound.stdout)["ok"]) == (0, True)
    params = tmp_path / "f" / "model-0000.params"
    content = bytearray(params.read_bytes())
    content[-200] ^= 1
    params.write_bytes(content)
    altered = run("verify", "f", "--json")
    assert (altered.exit_code, json.loads(altered.stdout)["ok"]) == (1, False)
    assert "model-0000.params" in altered.stderr
    assert run("verify", "f", "--quiet").exit_code == 1
    assert run("verify", "f", "--quiet").stdout == ""


def test_models_lists_every_card(run: Run) -> None:
    from quantkit.models.card import cards

    listed = {entry["name"]: entry for entry in json.loads(run("models", "--json").stdout)["models"]}
    assert set(listed) == {card.name for card in cards()}
    for flag in ([], ["--long"]):
        printed = run("models", *flag).stdout
        assert all(name in printed for name in listed)


def test_models_tells_cached_weights(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "mxnet"))
    listed = {entry["name"]: entry for entry in json.loads(run("models", "--json").stdout)["models"]}
    assert not any(source["cached"] for source in listed["resnet50_v1"]["sources"])


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_doctor_fails_only_where_quantkit_cannot_work(
    run: Run, engine: None, monkeypatch: pytest.MonkeyPatch, level: str, code: int
) -> None:
    from quantkit.host import report
    from quantkit.host.diagnose import Finding

    monkeypatch.setattr(report, "diagnose", lambda facts: (Finding("topic", level, "what [was] found", "fix it"),))
    result = run("doctor")
    assert result.exit_code == code
    assert "what [was] found" in result.stdout
    assert "fix it" in result.stdout
    assert json.loads(run("doctor", "--json").stdout)["worst"] == level
