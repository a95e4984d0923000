"""``quantkit predict``: what a bundle's network says of images, and pictures of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.option_types import PREDICTION
from quantkit.cli.options import Verb, collected, engine_option, force_option, option, output_options
from quantkit.cli.targets import check_file_target
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.host.threads import MOST_DECODERS
from quantkit.units import percent

if TYPE_CHECKING:
    import numpy as np

# Rows of a file that the table shows; --json has all.
_SHOWN = 10


@dataclass(frozen=True)
class SpreadOptions:
    """Over which processes and threads the work is spread."""

    instances: Optional[str] = option(
        "--instances",
        metavar="N|POLICY",
        help="Run the network in N processes, or in one on each core (core) or memory node (node).  "
        "[default: in this one]",
    )
    workers: Optional[int] = option(
        "--workers",
        type=click.IntRange(min=1, max=MOST_DECODERS),
        metavar="N",
        help="Threads that decode images while the network runs.  [default: as the deployment says, else one for each "
        "hardware thread, 16 at most]",
    )
    deployment: Optional[Path] = option(
        "--deployment",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="What `quantkit tune` wrote for this bundle; it says engine, instances and, unless given, workers.",
    )


@click.command(
    cls=Verb,
    examples=(
        "quantkit predict resnet50_v1-int8 photos/ --top 3 --instances core",
        "quantkit predict ssd-int8 street.jpg --draw out",
        "quantkit predict fcn-int8 street.jpg --draw out --engine onnxruntime",
    ),
)
@click.argument("bundle")
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--task",
    type=PREDICTION,
    help="What the outputs mean.  [default: what the bundle says, else what their shapes suggest]",
)
@click.option(
    "--draw",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Draw boxes, the class of every pixel, or joints over the images, and write PNG files into this folder.",
)
@click.option(
    "--least-score",
    type=click.FloatRange(min=0, max=1),
    default=0.5,
    show_default=True,
    metavar="SCORE",
    help="Omit detections with a lower score.",
)
@click.option(
    "--max-overlap",
    type=click.FloatRange(min=0, max=1),
    metavar="IOU",
    help="The largest overlap of two boxes of a class; only for networks that leave suppression to their caller.  "
    "[default: 0.45]",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="The most classes to show for an image.",
)
@engine_option
@collected("spread", SpreadOptions)
@force_option
@output_options
def predict(
    terminal: Terminal,
    bundle: str,
    images: tuple[Path, ...],
    task: Optional[str],
    draw: Optional[Path],
    least_score: float,
    max_overlap: Optional[float],
    top: int,
    engine: Optional[str],
    spread: SpreadOptions,
    force: bool,
) -> None:
    """Run a bundle's network on images and show what it finds.

    Classifiers show classes with their scores; detectors, boxes in pixels of the image; segmentation networks, the
    share of the image that each class covers; pose networks, the joints of a person. IMAGES are files or folders of
    files.
    """
    from quantkit.cli.networks import warn_of_bundle
    from quantkit.deployment.loading import load
    from quantkit.deployment.predictions import image_files, kind_of, predictions

    files = image_files(images)
    targets = None if draw is None else _targets(draw, files, force)
    shown: list[dict[str, Any]] = []
    with load(bundle, engine=engine, allow_random_weights=True, **asdict(spread)) as predictor:
        warn_of_bundle(terminal, bundle, predictor.manifest.source.weights)
        kind = kind_of(predictor, task)  # type: ignore[arg-type]
        found = predictions(predictor, files, kind, least_score, top, draw is not None, max_overlap)
        for number, each in enumerate(found):
            shown.append({"file": str(each.file), "values": each.values})
            if targets is not None and each.picture is not None:
                shown[-1]["picture"] = str(targets[number])
                with terminal.work.writing(targets[number]):
                    _write(targets[number], each.picture)
    result = {"bundle": bundle, "engine": predictor.engine, "task": kind, "images": shown}
    terminal.show(result, *_texts(shown))


def _targets(folder: Path, files: Sequence[Path], force: bool) -> list[Path]:
    """The pictures to write, one for each file."""
    targets = [folder / f"{file.stem}.png" for file in files]
    if len(set(targets)) < len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise UserError(f"two images would be drawn as {twice}; give them other names, or draw them in two runs")
    inputs = {file.resolve() for file in files}
    for target in targets:
        if target.resolve() in inputs:
            raise UserError(f"{target} is one of the images, which its picture would replace; draw into another folder")
        check_file_target(target, force, make_folder=True, option="--draw")
    return targets


def _write(path: Path, picture: np.ndarray) -> None:
    from PIL import Image

    from quantkit.files.files import writing

    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        Image.fromarray(picture).save(file, "PNG")


def _texts(shown: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for each in shown:
        drawn = f" -> {each['picture']}" if "picture" in each else ""
        lines.append(f"{each['file']}{drawn}")
        values = each["values"]
        lines += [f"  {_text(value)}" for value in values[:_SHOWN]]
        if not values:
            lines.append("  nothing")
        if len(values) > _SHOWN:
            lines.append(f"  and {len(values) - _SHOWN} more")
    return lines


def _text(value: dict[str, Any]) -> str:
    if "point" in value:
        x, y = value["point"]
        return f"{value['score']:.3f} joint {value['joint']} at {x:.0f} {y:.0f}"
    if "share" in value:
        return f"{percent(value['share']):>8} {value['class']}"
    box = "".join(f" {edge:.0f}" for edge in value.get("box", ()))
    return f"{value['score']:.3f} {value['class']}{box}"
