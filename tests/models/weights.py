"""A small network's weights, and a hub that has them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from quantkit.data.preprocess import Preprocess
from quantkit.formats.mxnet.params import write_params
from quantkit.models.card import Card, WeightSource
from quantkit.models.fit import Parameters

WANTED = Parameters({"net0_w": (2, 3), "net0_b": (2,)}, {"net0_w": "out.weight", "net0_b": "out.bias"})
VALUES = {"net0_w": np.arange(6, dtype=np.float32).reshape(2, 3), "net0_b": np.ones(2, np.float32)}
OTHER = Preprocess(None, None, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def random() -> dict[str, np.ndarray]:
    return {name: np.zeros(shape, np.float32) for name, shape in WANTED.shapes.items()}


def params_file(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    write_params(file, arrays)
    return file.getvalue()


def card(folder: Path, *sources: WeightSource, params: str | None = None) -> Card:
    return Card("net", folder, (3, 8, 8), 2, network="net", sources=sources, params=params)


def assert_trained(params: dict[str, np.ndarray]) -> None:
    assert set(params) == set(VALUES)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(params[name], value)


def upload(hub: Path, content: bytes, location: str = "o/r/model.params", revision: str = "main") -> WeightSource:
    """Put a file into the hub; its source, without a hash."""
    owner, repository, file = location.split("/")
    folder = hub / owner / repository / "resolve" / revision
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(content)
    return WeightSource("huggingface", location, revision=None if revision == "main" else revision)
