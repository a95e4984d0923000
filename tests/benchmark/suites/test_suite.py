from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.benchmark.results.results import Contestant, Published
from quantkit.benchmark.suites.suite import Recurrent, Subject, batches_of, read_suite
from quantkit.errors import UserError

GOOD = """
title = "A toy"
scenario = "throughput"
batches = [8, 1]
baseline = "native"
[[network]]
model = "resnet18_v1"
[[network]]
name = "lstm"
rnn = {layers = 2, steps = 5, inputs = 8, hidden = 8}
batches = [32]
scenario = "latency"
[[contestant]]
name = "native"
build = "native"
variant = "fp32"
policy = "node"
[[published]]
network = "lstm"
batch = 32
contestant = "native"
scenario = "latency"
metric = "speedup"
value = 1.0
"""

SAME_FILE = """name = "native"
build = "native"
variant = "fp32"
policy = "core"
[[contestant]]
name = "a (1)"
build = "native"
variant = "fp32"
policy = "core"
[[contestant]]
name = "a [1]"
"""

TABLE = """[[published_table]]
tables = ["mxnet-1.5-cnn"]
columns = {other = "FP32"}
[[published]]"""


def write(folder: Path, text: str) -> Path:
    path = folder / "toy.toml"
    path.write_text(text)
    return path


def test_a_suite_is_read_as_written(tmp_path: Path) -> None:
    suite = read_suite(write(tmp_path, GOOD))
    assert (suite.name, suite.title, suite.baseline) == ("toy", "A toy", "native")
    resnet, lstm = suite.networks
    assert resnet == Subject("resnet18_v1", model="resnet18_v1")
    assert lstm == Subject("lstm", rnn=Recurrent(2, 5, 8, 8), batches=(32,), scenario="latency")
    assert batches_of(suite, resnet) == (1, 8)
    assert batches_of(suite, lstm) == (32,)
    assert suite.contestants == (Contestant("native", "native", "fp32", "node"),)
    assert suite.published == (Published("lstm", 32, "native", "latency", "speedup", 1.0),)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('policy = "node"', 'policy = "node"\nagainst = ["native"]', "native is against 'native'"),
        ('policy = "node"', 'policy = "node"\nagainst = ["other"]', "native is against 'other'"),
        ('policy = "node"', 'policy = "node"\nsettings = {threads = "all"}', "give it the policy unpinned"),
        ('policy = "node"', 'policy = "node"\nsettings = {blocktime = 1}', 'give it openmp = "intel"'),
        ('policy = "node"', 'policy = "node"\nsettings = {openmp = "intel", blocktime = -1}', "blocktime of native"),
        ('policy = "node"', 'policy = "node"\nsettings = {openmp = "intel", affinity = "x;y"}', "affinity 'x;y'"),
        ('policy = "node"', 'policy = "node"\nsettings = {preload = "spy.so"}', "preload"),
        ("title", "[", "cannot read the suite"),
        ('build = "native"', 'build = "mine=./anything"', "give the interpreter with --build mine=./anything"),
        ('title = "A toy"', "", "title"),
        ("batches = [8, 1]", 'batches = ["x"]', "batches"),
        ("batches = [8, 1]", "batches = [0]", "batch sizes of resnet18_v1"),
        ("batches = [8, 1]", "batches = [1, 1]", "batch sizes of resnet18_v1"),
        ("batches = [8, 1]", "batches = [1]\nlargest = [0]", "largest holds different"),
        ("batches = [8, 1]", "batches = [1]\nlargest = [32, 32]", "largest holds different"),
        ("batches = [8, 1]", "batches = [1]\nspeed = 3", "no setting 'speed'"),
        ('"throughput"', '"fast"', "no scenario 'fast'"),
        ("batches = [8, 1]", "batches = [1]\nbudget = 0", "budget must be"),
        ('baseline = "native"', 'baseline = "mkl"', "baseline 'mkl' is no contestant"),
        ('name = "native"', SAME_FILE, "two cells would have the same file"),
        ('variant = "fp32"', 'variant = "fp16"', "no variant 'fp16'"),
        ('policy = "node"', 'policy = "foo"', "no placement 'foo'"),
        ('model = "resnet18_v1"', 'name = "x"', "needs either a model or an rnn"),
        ('name = "lstm"', 'name = "resnet18_v1"', "two networks are called 'resnet18_v1'"),
        ('network = "lstm"', 'network = "other"', "published figure is for other"),
        ("value = 1.0", 'value = "much"', "published"),
        ("value = 1.0", "value = 1.0\nunit = 1", "published.0.unit"),
        ('policy = "node"', 'policy = "node"\nthreads = 1', "contestants.0.threads"),
        ("hidden = 8", "hidden = 8, gates = 3", "networks.1.rnn.gates"),
        ('scenario = "latency"', 'scenario = "latency"\nspeed = 1', "networks.1.speed"),
        ("layers = 2", "layers = 0", "networks.1.rnn.layers"),
        ("steps = 5", "steps = 0", "networks.1.rnn.steps"),
        ("inputs = 8", "inputs = -8", "networks.1.rnn.inputs"),
        ("hidden = 8", "hidden = 0", "networks.1.rnn.hidden"),
        ("value = 1.0", "value = 0", "published.0.value"),
        ("value = 1.0", "value = nan", "published.0.value"),
        ("value = 1.0", "value = inf", "published.0.value"),
        ('metric = "speedup"', 'metric = "speed"', "metric 'speed'; choose from throughput, latency, speedup"),
        ('scenario = "latency"\nmetric', 'scenario = "fast"\nmetric', "scenario 'fast'; choose from throughput"),
        ("[[published]]", "[[published_table]]\ntables = []\ncolumns = {}\n[[published]]", "published_table.0.tables"),
        ("[[published]]", TABLE, "a published table has a column for 'other', which is no contestant"),
    ],
)
def test_mistakes_are_named(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(UserError, match=r"toy\.toml") as caught:
        read_suite(write(tmp_path, GOOD.replace(old, new, 1)))
    assert words in str(caught.value)


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the suite"):
        read_suite(tmp_path / "none.toml")
