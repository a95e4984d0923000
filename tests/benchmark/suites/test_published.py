from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from quantkit.benchmark.suites import published
from quantkit.benchmark.suites.published import Beside, beside, published_tables
from quantkit.benchmark.suites.suite import read_suite, shipped_suites
from quantkit.errors import UserError
from quantkit.files.files import shipped

SCORE = (Beside(("mxnet-1.2-c5.18xlarge", "mxnet-1.2-c5.xlarge", "mxnet-1.2-k80"), {"ours": "FP32"}),)
TWO = (*SCORE, Beside(("mxnet-1.5-cnn",), {"ours": "INT8"}))


def test_every_table_has_a_value_for_each_batch_size() -> None:
    for table in published_tables().values():
        lengths = {len(values) for column in table.figures.values() for values in column.values()}
        assert lengths == {len(table.batches)}
        assert all(value == "OOM" or value > 0 for c in table.figures.values() for v in c.values() for value in v)
        assert table.machine.gpu == (table.machine.cores == 0)


def test_records_have_a_value_for_each_column() -> None:
    records = tomllib.loads((shipped("benchmarks") / "published.toml").read_text())["record"]
    assert {len(row) - len(record["columns"]) for record in records for row in record["rows"]} == {0}


@pytest.mark.parametrize(("cores", "machine"), [(2, "xlarge"), (6, "xlarge"), (9, "18xlarge"), (64, "18xlarge")])
def test_the_machine_nearest_in_cores_is_taken(cores: int, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cpu:
        usable_cores = cores

    monkeypatch.setattr(published, "read_cpu", Cpu)
    figures, (source,) = beside(SCORE, ["resnet50_v2"], None, "here")
    assert source.machine.name == f"EC2 C5.{machine}"
    assert {figure.table for figure in figures} == {source.table}
    assert {figure.network for figure in figures} == {"resnet50_v2"}


@pytest.mark.parametrize("machine", ["c5.xlarge", "C5.XLARGE", "EC2 C5.xlarge", "(C5.xlarge, EC2)"])
def test_a_machine_can_be_chosen(machine: str) -> None:
    figures, sources = beside(TWO, ["alexnet", "resnet50_v1"], machine, "here")
    assert [source.machine.name for source in sources] == ["EC2 C5.xlarge"]
    assert [figure.value for figure in figures] == [36.64, 49.21, 50.12, 54.71, 60.23, 66.37]


@pytest.mark.parametrize("machine", ["K80 (EC2 p2.2xlarge)", "k80", "p2.2xlarge"])
def test_what_did_not_fit_into_memory_has_no_figure(machine: str) -> None:
    figures, _ = beside(SCORE, ["vgg16"], machine, "here")
    assert max(figure.batch for figure in figures) == 64


def test_a_whole_name_is_that_of_one_machine_though_another_has_its_words() -> None:
    both = [Beside(("mxnet-1.2-v100",), {"ours": "FP32"}), Beside(("mxnet-1.2-v100-float16",), {"ours": "FP16"})]
    for name, table in (("V100 (EC2 p3.2xlarge)", "mxnet-1.2-v100"), ("float16", "mxnet-1.2-v100-float16")):
        _, (source,) = beside(both, ["resnet50_v2"], name, "here")
        assert source.table == table
    with pytest.raises(UserError, match=r"here: 'v100' may be V100 \(EC2 p3\.2xlarge\), V100 .*give the whole name"):
        beside(both, ["resnet50_v2"], "v100", "here")


def test_a_table_without_figures_of_these_networks_is_no_source() -> None:
    _, (source,) = beside(TWO, ["resnet50_v1"], None, "here")
    assert source.table == "mxnet-1.5-cnn"


@pytest.mark.parametrize(
    ("choice", "machine", "words"),
    [
        (Beside(("mxnet-9",), {}), None, "here: there is no published table 'mxnet-9'; there are mxnet-1.5-cnn, "),
        (Beside(("mxnet-1.5-cnn",), {"ours": "FP16"}), None, "mxnet-1.5-cnn has no column 'FP16', but FP32, INT8"),
        (SCORE[0], "5.xlarge", "no published figures of a machine '5.xlarge'; there are those of EC2 C5.18xlarge, "),
    ],
)
def test_what_is_unknown_is_told(choice: Beside, machine: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words.replace(".", r"\.")):
        beside([choice], ["alexnet"], machine, "here")


def test_a_suite_without_published_figures_has_none_of_any_machine(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no published figures of a machine 'C5\.xlarge'; the suite has none"):
        read_suite(shipped_suites()["smoke"], "C5.xlarge")


def test_the_figures_of_the_article_are_all_there() -> None:
    suite = read_suite(shipped_suites()["int8-speedup"])
    of_article = [figure for figure in suite.published if figure.table == "mxnet-1.5-cnn"]
    by_mkl = [figure for figure in of_article if figure.contestant.startswith("mkl-1.5")]
    assert len(by_mkl) == 8 * 7 * 2
    (most,) = (f.value for f in by_mkl if (f.network, f.batch, f.contestant[8:]) == ("resnet50_v1", 64, "stock INT8"))
    assert most == 82.01
