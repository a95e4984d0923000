"""What only a real process shows: interruption, pipes, standard output, the speed of --help."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from tests.cli.conftest import PROMPTLY, SHAPE, start
from tests.processes import environment

pytestmark = pytest.mark.timing


def test_ctrl_c_during_calibration_ends_at_once_and_leaves_nothing(
    checkpoint: Path, int8_engine: None, tmp_path: Path
) -> None:
    import numpy as np

    np.savez(tmp_path / "many.npz", x=np.random.default_rng(0).normal(0, 1, (4000, 3, 16, 16)).astype("float32"))
    process = start(
        tmp_path, "quantize", checkpoint, "--calib-data", "many.npz", "--calib", 4000, "--input-shape", SHAPE, "--json"
    )
    assert process.stderr is not None
    while "calibrating" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - pressed < PROMPTLY
    assert process.returncode == 130
    assert err.splitlines() == ["interrupted; nothing was written"]
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert os.listdir(tmp_path) == ["many.npz"]


def test_ctrl_c_ends_a_main_thread_that_does_not_answer(tmp_path: Path) -> None:
    busy = (
        "import hashlib, sys\n"
        "from quantkit.cli.main import main\n"
        "from quantkit.host import report\n"
        "def examine(engine):\n"
        "    print('busy', file=sys.stderr, flush=True)\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**8)\n"
        "report.examine, sys.argv = examine, ['quantkit', 'doctor', '--quiet']\n"
        "main()"
    )
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", busy], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "busy\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - pressed < PROMPTLY
    assert (process.returncode, err) == (130, "interrupted; nothing was written\n")


def test_standard_output_is_one_json_object_whatever_the_engine_prints(
    checkpoint: Path, samples: Path, tmp_path: Path
) -> None:
    process = start(
        tmp_path, "evaluate", checkpoint, "--data", samples, "--input-shape", SHAPE, "--json",
        MKLDNN_VERBOSE="1", DNNL_VERBOSE="1",
    )  # fmt: skip
    out, err = process.communicate(timeout=120)
    assert json.loads(out)["images"] == 23
    assert ",exec,cpu" in err


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    process = start(tmp_path, "models", "--long")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


@pytest.mark.parametrize(
    "verb",
    [
        "", "quantize", "evaluate", "explain", "fuse", "calibrate", "verify", "models", "doctor", "benchmark", "report",
        "compare", "profile", "builds", "analyze",
    ],
)  # fmt: skip
def test_help_loads_nothing_heavy(verb: str) -> None:
    code = (
        "import sys, quantkit\nfrom quantkit.cli.main import cli\n"
        f"try: cli({[*filter(None, [verb]), '--help']!r})\nexcept SystemExit as end: assert end.code == 0\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    loaded = set(eval(done.stderr))
    assert "click" in loaded
    heavy = {
        "mxnet",
        "gluoncv",
        "onnx",
        "numpy",
        "pydantic",
        "PIL",
        "skimage",
        "sklearn",
        "requests",
        "rich",
        "scipy",
        "jinja2",
    }
    heavy |= {"matplotlib", "filelock"}
    assert not loaded & heavy


def test_help_is_fast(tmp_path: Path) -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert start(tmp_path, "--help").wait() == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, so that a busy machine does not count.
    assert min(seconds() for _ in range(3)) < 0.3


@pytest.mark.parametrize(
    ("trigger", "code", "said"),
    [
        (
            "sys.addaudithook(lambda event, names: event == 'import' and names[0] == 'quantkit.cli.main' and hit())",
            -2,
            "",
        ),
        ("Thread.start = lambda self: hit()", 130, "interrupted; nothing was written\n"),
    ],
    ids=["while the command line is imported", "while it begins to listen"],
)
def test_ctrl_c_at_once(trigger: str, code: int, said: str, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom threading import Thread\nfrom quantkit.__main__ import main\n"
        "def hit():\n    os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.argv = ['quantkit', 'models']\n{trigger}\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_the_verbs_are_listed_with_the_first_lines_of_their_helps() -> None:
    from quantkit.cli import main

    context = click.Context(main.cli)
    for name, said in main._VERBS.items():
        verb = main.cli.get_command(context, name)
        assert verb is not None and verb.name == name
        assert verb.get_short_help_str(200) == said
    assert main.cli.get_command(context, "quantise") is None
