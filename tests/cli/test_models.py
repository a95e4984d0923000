"""``quantkit models``: lists, searches, and the description of one network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quantkit.models.card import cards
from tests.cli.conftest import Run


def listed(run: Run, *arguments: str) -> list[dict[str, Any]]:
    result = run("models", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    known: list[dict[str, Any]] = json.loads(result.stdout)["models"]
    return known


def test_cards_are_listed_by_default(run: Run) -> None:
    assert [each["name"] for each in listed(run)] == [card.name for card in cards()]


def test_a_network_has_the_same_keys_in_a_list_and_alone(run: Run, engine: None) -> None:
    (alone,) = listed(run, "squeezenet1.1")
    in_list = {each["name"]: each for each in listed(run, "squeezenet1.*")}
    assert {key: known for key, known in alone.items() if key != "coverage"} == in_list["squeezenet1.1"]
    # Networks without a card.
    assert all(each["notes"] == [] for each in listed(run, "*_int8"))


def test_networks_for_a_task(run: Run, engine: None) -> None:
    known = listed(run, "--task", "detection")
    assert {each["task"] for each in known} == {"detection"}
    assert {"ssd", "yolo3", "center_net", "rcnn"} == {each["family"] for each in known}
    others = {each["name"]: each["quantized_as"] for each in known if each["quantized_as"]}
    assert others and all(name == f"{fp32}_int8" for name, fp32 in others.items())


def test_networks_of_a_family_with_and_without_a_card(run: Run, engine: None) -> None:
    names = {each["name"] for each in listed(run, "--family", "resnet", "--task", "classification")}
    assert {"resnet50_v1", "cifar_resnet20_v1", "resnet50_v1d", "digits_resnet20_v1"} <= names
    assert not any("resnext" in name for name in names)


def test_a_glob_finds_names_and_aliases(run: Run, engine: None) -> None:
    names = {each["name"] for each in listed(run, "ssd_512_*_voc")}
    assert "ssd_512_resnet50_v1_voc" in names and all(name.endswith("_voc") for name in names)
    assert [each["name"] for each in listed(run, "inception_v[3]")] == ["inceptionv3"]


def test_lists_in_words(run: Run, engine: None) -> None:
    shown = run("models", "*squeezenet*", "--long").stdout
    assert "squeezenet1.0  SqueezeNet 1.0" in shown and "short side to 256" in shown
    shown = run("models", "ssd_300_vgg16_atrous_voc*").stdout
    assert "the FP32 network's" in shown and "3x300x300" in shown


def test_names_are_whole_in_narrow_terminals(run: Run, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("models", "*_int8").stdout.splitlines()
    names = [each["name"] for each in listed(run, "*_int8")]
    assert names and all(any(line.split()[:1] == [name] for line in lines) for name in names)
    assert all("the FP32 network's" in line for line in lines if line.split()[:1] and line.split()[0] in names)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_nothing_that_other_commands_take_is_cut(
    run: Run, engine: None, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = run("models").stdout
    words = set(shown.split())
    assert {each["name"] for each in listed(run)} <= words
    aliases = {alias for each in listed(run) for alias in each["aliases"]}
    assert aliases <= {word.rstrip(",") for word in words} if columns == 200 else "aliases" not in words


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("digits_ssd", "mAP 96.42 % (models/train_digits_ssd.py"),
        ("digits_fcn", "mIoU 70.21 %"),
        ("char_lm", "top-1 70.28 %, perplexity 3.105"),
        ("resnet18_v1", "top-1 70.93 %, top-5 89.92 %"),
    ],
)
def test_the_accuracy_is_told_by_the_metric_of_the_task(
    run: Run, engine: None, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert told in run("models", name).stdout


def test_the_accuracy_of_detectors_is_listed(run: Run, engine: None) -> None:
    lines = run("models", "--task", "detection").stdout.splitlines()
    assert " 96.4 % mAP " in next(line for line in lines if line.startswith("digits_ssd"))
    assert " 36.0 % COCO AP " in next(line for line in lines if line.startswith("yolo3_darknet53_coco"))


def test_nothing_matches(run: Run, engine: None) -> None:
    result = run("models", "--task", "detektion")
    assert result.exit_code == 2
    assert "tasks are" in result.stderr and "detection" in result.stderr


def test_one_network(run: Run, engine: None) -> None:
    """He et al. 2016: a first convolution, three stages of six with 16, 32, 64 channels on 32, 16, 8 pixels, a dense
    layer; two shortcuts are convolutions of 1x1."""
    stages = 6 * 1024 * 16 * 16 * 9 + (5 * 256 * 32 * 32 + 256 * 32 * 16) * 9 + (5 * 64 * 64 * 64 + 64 * 64 * 32) * 9
    layers = 1024 * 16 * 27 + stages + 256 * 32 * 16 + 64 * 64 * 32 + 640
    (known,) = listed(run, "cifar_resnet20")
    assert known["coverage"]["macs"] == layers
    assert (known["coverage"]["share"], known["coverage"]["layers"]) == (1.0, 22)
    shown = run("models", "cifar_resnet20").stdout
    assert f"{layers / 1e9:.3f} GMAC" in shown and "22 of 22 layers, 100.0 % of the MACs" in shown
    assert "classification, family resnet" in shown


def test_an_int8_network_of_gluoncv_is_described_by_the_one_that_is_quantized(run: Run, engine: None) -> None:
    (known,) = listed(run, "mobilenet1.0_int8")
    note = "mobilenet1.0_int8 is GluonCV's own INT8 network; quantkit quantizes mobilenet1.0"
    assert (known["name"], known["notes"]) == ("mobilenet1.0", [note])
    assert known["coverage"] == listed(run, "mobilenet1.0")[0]["coverage"]
    assert f"note: {note}" in run("models", "mobilenet1.0_int8").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("resnet51",), "did you mean"),
        (("resnet50", "--task", "detection"), "give --task and --family with a glob"),
        (("tiny-symbol.json",), "is a file and not a network by name"),
    ],
)
def test_a_name_that_is_none(run: Run, engine: None, arguments: tuple[str, ...], told: str) -> None:
    result = run("models", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
