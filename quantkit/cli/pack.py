"""``quantkit pack``: a folder of images as RecordIO shards."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Optional

import click

from quantkit.cli.options import Verb, force_option, output_options
from quantkit.cli.terminal import Terminal
from quantkit.units import counted, megabytes


@click.command(
    cls=Verb,
    examples=(
        "quantkit pack imagenet/val --out shards/ --resize 256",
        "quantkit pack photos:test --out photos-test/",
    ),
)
@click.argument("folder")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="The folder to write.")
@click.option(
    "--resize",
    type=click.IntRange(min=1),
    metavar="PIXELS",
    help="Scale the short side of images to this, and encode them as JPEG.  [default: JPEG and PNG files stay as they "
    "are, byte for byte; others become JPEG]",
)
@click.option(
    "--quality", type=click.IntRange(1, 100), default=95, show_default=True, help="Of images that are encoded as JPEG."
)
@click.option(
    "--shard-size", type=click.IntRange(min=1), default=1024, show_default=True, metavar="N", help="Images in a shard."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads that decode and encode.  [default: one for each processor]",
)
@force_option
@output_options
def pack(
    terminal: Terminal,
    folder: str,
    out: Path,
    resize: Optional[int],
    quality: int,
    shard_size: int,
    workers: Optional[int],
    force: bool,
) -> None:
    """Write the images of a folder as RecordIO shards, with their labels and names.

    FOLDER is a folder of images as --calib-data takes it, or FOLDER:SPLIT. What is written is sample data for every
    command, and for MXNet's ImageRecordIter: a few large files, which shared file systems and object stores serve
    faster than many small ones. Every image is decoded once, so that a damaged one is told now. The same images give
    the same bytes.
    """
    from quantkit.cli.console import RenderableType
    from quantkit.data.pack import Packing
    from quantkit.data.pack import pack as packed

    begun = time.monotonic()
    with terminal.work.writing(out):
        result = packed(folder, out, Packing(resize, quality, shard_size, workers), force, terminal.progress)
    seconds = time.monotonic() - begun
    from rich.text import Text

    from quantkit.cli.summary import grid_of

    rows = [
        ("images", f"{result.images}, {result.labelled} with labels"),
        ("written", f"{counted(result.shards, 'shard')}, {megabytes(result.size)}"),
        ("speed", f"{result.images / seconds:.0f} images/s"),
    ]
    tables: list[RenderableType] = [Text(f"\n{folder} packed: {out}", "bold"), grid_of(rows)]
    terminal.show({"folder": folder, "out": str(out), **asdict(result), "seconds": seconds}, *tables)
