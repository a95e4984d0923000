from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from quantkit.host import placeholders
from quantkit.host.placeholders import command, hidden, recorded


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("QUANTKIT_HOME", "/home/alice/.cache/quantkit")
    monkeypatch.setattr(placeholders.tempfile, "gettempdir", lambda: "/tmp")
    monkeypatch.setattr(placeholders.socket, "gethostname", lambda: "build-7.example.org")
    monkeypatch.setattr(placeholders.getpass, "getuser", lambda: "alice")
    placeholders._names.cache_clear()
    yield
    placeholders._names.cache_clear()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/alice/.cache/quantkit/builds/native/bin/python", "$QUANTKIT_HOME/builds/native/bin/python"),
        ("cannot read /home/alice/data/x.npz: no space", "cannot read ~/data/x.npz: no space"),
        ("/home/alicent/x", "…/x"),
        ("/tmp/quantkit-1a/x", "$TMPDIR/quantkit-1a/x"),
        ("/srv/secret/models/net-int8", "…/net-int8"),
        ('File "/opt/mine/lib.py", line 3', 'File "…/lib.py", line 3'),
        (
            "LD_PRELOAD=/srv/a/libiomp5.so:/usr/lib/libjemalloc.so.2",
            "LD_PRELOAD=…/libiomp5.so:/usr/lib/libjemalloc.so.2",
        ),
        ("numa_maps in /proc does not tell", "numa_maps in /proc does not tell"),
        ("on build-7: refused by build-7.example.org", "on $HOST: refused by $HOST"),
        ("rebuild-7 and build-70", "rebuild-7 and build-70"),
        ("../of/alice/net and alice@x", "../of/$USER/net and $USER@x"),
        ("12 images/s, 3/4, a/b", "12 images/s, 3/4, a/b"),
        ("alice's palace", "alice's palace"),
        ("/srv/x/im\udcffg", "…/im\ufffdg"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    assert hidden(text) == shown
    assert hidden(shown) == shown


def test_commands() -> None:
    given = [
        "benchmark",
        "/srv/My Models/net int8",
        "--build",
        "mine=/srv/a b/bin/python",
        "--data=/home/alice/x",
        "--batch",
        "1,2",
    ]
    assert command("quantkit", given) == "quantkit benchmark '…/net int8' --build mine=…/python --data=~/x --batch 1,2"


def test_values() -> None:
    @dataclass(frozen=True)
    class Found:
        name: str
        words: tuple[str, ...]
        more: dict[str, object]

    found = recorded(
        Found("/srv/x", ("/srv/x", "y"), {"name": "/srv/x", "deep": ["/srv/x", 3, None]}), frozenset({"name"})
    )
    assert found == Found("/srv/x", ("…/x", "y"), {"name": "/srv/x", "deep": ["…/x", 3, None]})
