"""Folders of digits as image files, some of them damaged."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from pathlib import Path

from PIL import Image

from quantkit.data.sources import load_data


def digits_folder(folder: Path, number: int, bad: Collection[int] = (), left_out: Collection[int] = ()) -> Path:
    """The first ``number`` test digits as ``000.png`` and so on with a ``labels.csv``.

    Those of ``bad`` are no images, those of ``left_out`` are not there.
    """
    folder.mkdir()
    lines = ["file,label"]
    for place, sample in enumerate(islice(load_data("digits:test"), number)):
        path = folder / f"{place:03}.png"
        if place in left_out:
            continue
        if place in bad:
            path.write_bytes(b"no image")
        else:
            Image.fromarray(sample.image).save(path)
        lines.append(f"{path.name},{sample.label}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder
