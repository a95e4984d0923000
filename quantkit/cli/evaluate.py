"""``quantkit evaluate``: accuracy, agreement with a reference, and which differences are more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.cluster import OnCluster, executor_of
from quantkit.cli.evaluate_task import goal_text, show_task
from quantkit.cli.option_groups import Loading, Preprocessing, class_scores_option, skip_bad_option
from quantkit.cli.option_types import TASK
from quantkit.cli.options import Verb, collected, option, output_options
from quantkit.cli.quantize import GOAL_MISSED
from quantkit.cli.terminal import Terminal
from quantkit.units import percent

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType
    from quantkit.data.sample_noun import SampleNoun
    from quantkit.data.samples import Samples
    from quantkit.evaluation.evaluate import Comparison, Evaluation
    from quantkit.evaluation.joint_run import Role
    from quantkit.evaluation.network import Network
    from quantkit.models.families import Task

_LABELS: dict[Role, str] = {"network": "accuracy", "reference": "reference", "against": "other"}


@dataclass(frozen=True)
class Reading:
    """How many samples are read, how many at a time, and how many may be left out."""

    num_samples: Optional[int] = option(
        "--num-samples", type=click.IntRange(min=1), metavar="N", help="Use the first N samples only."
    )
    batch_size: int = option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True, metavar="N")
    skip_bad: int = skip_bad_option()


@click.command(
    cls=Verb,
    examples=(
        "quantkit evaluate resnet50_v1-int8 --data photos/ --reference resnet50",
        "quantkit evaluate resnet50_v1-int8 --data photos:test --num-samples 500",
        "quantkit evaluate best-int8 --against fast-int8 --data photos/ --reference resnet50",
        "quantkit evaluate detector-int8 --data photos/ --reference detector.onnx",
        "quantkit evaluate digits_resnet20_v1 --data digits:test",
        "quantkit evaluate ssd-int8 --data VOCdevkit/VOC2007:test --reference ssd_300_vgg16_atrous_voc --max-drop 0.2",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option(
    "--data",
    required=True,
    metavar="SPEC",
    help="Samples: a folder, FOLDER:SPLIT, COCO .json, .npz, .npy, .rec, s3://BUCKET/SHARDS, digits:test.",
)
@click.option("--reference", metavar="MODEL|BUNDLE", help="Compare with this network, sample by sample.")
@click.option(
    "--against",
    metavar="BUNDLE|MODEL",
    help="Compare with this network: which of the two agrees more often with the reference, and with the labels.",
)
@collected("reading", Reading)
@click.option(
    "--task",
    type=TASK,
    help="Judge by the metric of this task. For detection and segmentation, --data is a VOC folder (FOLDER:SPLIT for "
    "one of its splits) or scenes:test; for detection and pose, a COCO file (.json). Depth, "
    "tracking and embedding have no metric: outputs are compared with the reference's.  [default: what the network's "
    "card or bundle says]",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(min=0, max=100),
    metavar="POINTS",
    help="End with exit code 4 if the network loses more against the reference: points of its task's score, of top-1 "
    "(of agreement where samples have no labels), or percent of perplexity.",
)
@class_scores_option
@collected("on_cluster", OnCluster)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@output_options
def evaluate(
    terminal: Terminal,
    network: str,
    data: str,
    reference: Optional[str],
    against: Optional[str],
    reading: Reading,
    task: Optional[Task],
    max_drop: Optional[float],
    classes: Optional[bool],
    on_cluster: OnCluster,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Measure accuracy, and agreement with a reference.

    Top-1 and top-5 need class scores and labels: a labels.csv in the folder, one folder per class, or `y` in the .npz.
    With --reference, agreement needs no labels: the share of images with the same top-1, and the mean cosine of the
    outputs. Differences come with the p-value of McNemar's test over the samples, a 95 % interval, and a verdict.

    If every step of a sequence has class scores and a label (`y` of shape samples, steps), as in language models, it
    measures cross-entropy in nats per step, perplexity and top-1 of steps, and the change of perplexity with its
    interval.

    For networks without class scores (several outputs, maps, embeddings), each output is compared with the
    reference's: its cosine, its signal-to-noise ratio, and its largest deviation.

    Detectors are judged by mean average precision, as in VOC 2012 and 2007 on VOC folders and as in COCO on COCO
    files; segmentation networks by mean intersection over union and pixel accuracy; pose networks by average precision
    over object keypoint similarity (OKS), with the people given. Scores have 95 % bootstrap intervals over images
    (for poses, over photographs). Agreement takes the confident predictions of the reference as the truth.

    --weights, --input-shape, --box-corners and the preprocessing are for MODELs; a bundle has its own.
    """
    from quantkit.cli.networks import open_network
    from quantkit.data.samples import skipping
    from quantkit.data.sources import load_data
    from quantkit.evaluation.evaluate import evaluate_networks
    from quantkit.models.families import WITHOUT_CLASS_SCORES, check_task
    from quantkit.quantization.goal import Goal
    from quantkit.tasks.choose import judged_task
    from quantkit.tasks.judge import judge

    if max_drop is not None and reference is None:
        raise click.UsageError("--max-drop is about what a network loses against its reference; give a --reference")
    check_task(task, classes)
    named: dict[Role, Optional[str]] = {"network": network, "reference": reference, "against": against}
    networks = {
        role: open_network(terminal, spec, loading, preprocessing) for role, spec in named.items() if spec is not None
    }
    first = networks["network"]
    judged = None if classes else judged_task(task or first.task)
    if judged is not None:
        if reading.skip_bad:
            raise click.UsageError(f"{judged} is judged on every image of the data; leave --skip-bad out")
        with executor_of(terminal, on_cluster) as executor:
            number = reading.num_samples
            found = judge(judged, networks, data, reading.batch_size, number, terminal.progress, executor)
        if not show_task(terminal, first, named, data, found, max_drop):
            click.get_current_context().exit(GOAL_MISSED)
        return
    samples = skipping(load_data(data), reading.skip_bad)
    scores = False if classes is None and task in WITHOUT_CLASS_SCORES else classes
    if max_drop is not None:
        _check_has_loss(first, task or first.task, samples, scores)
    with executor_of(terminal, on_cluster) as executor:
        evaluation = evaluate_networks(
            networks, samples, reading.batch_size, reading.num_samples, terminal.progress, scores, executor
        )
    loss = evaluation.loss
    met = None if max_drop is None or loss is None else Goal(max_drop=max_drop).accurate(loss)
    result = {
        "network": network,
        "reference": reference,
        "against": against,
        "kind": first.kind,
        "weights": first.weights,
        "data": samples.name,
        **evaluation.document,
        "max_drop": max_drop,
        "met": met,
    }
    terminal.show(result, *_tables(result, first, evaluation))
    terminal.warn_of_left_out(evaluation.left_out)
    if met is False:
        click.get_current_context().exit(GOAL_MISSED)


def _check_has_loss(network: Network, task: Optional[Task], samples: Samples, scores: Optional[bool]) -> None:
    """Make sure that the network has something that --max-drop bounds, before it runs."""
    from quantkit.data.samples import are_labelled
    from quantkit.models.families import WITHOUT_CLASS_SCORES

    labelled = are_labelled(samples)
    if (network.step_scores(scores, labelled) or network.class_scores(scores, labelled)).yes:
        return
    if task in WITHOUT_CLASS_SCORES:
        raise click.UsageError(f"networks for {task} are judged by their values alone; leave --max-drop out")
    raise click.UsageError(
        f"--max-drop is about classes or the score of a task, and {network.name} puts out no class scores; give --task "
        "detection, segmentation or pose, or --classes"
    )


def _tables(result: Mapping[str, Any], network: Network, evaluation: Evaluation) -> list[RenderableType]:
    from rich.text import Text

    from quantkit.cli.summary import agreement_rows, grid_of
    from quantkit.data.sample_noun import sample_noun

    noun = sample_noun(network.input_shape)
    rows = [(f"{noun}s", f"{evaluation.images} of {result['data']}")]
    for role, label in _LABELS.items():
        if role in evaluation.accuracy:
            accuracy = evaluation.accuracy[role]
            top5 = f", top-5 {percent(accuracy.top5)}" if prod(network.output_shapes[0]) > 5 else ""
            rows.append((label, f"top-1 {percent(accuracy.top1)}{top5}"))
        if role in evaluation.step_accuracy:
            rows.append((label, evaluation.step_accuracy[role].text))
    for label, role in (("agreement", "network"), ("of other", "against")):
        if role in evaluation.agreement:
            rows += agreement_rows(label, evaluation.agreement[role])
    rows += [_comparison_row(each, noun) for each in evaluation.comparisons]
    if (steps := evaluation.step_accuracy.get("network")) is not None:
        rows.append(("scores", f"{steps.scale} at each of {steps.steps} steps"))
    if result["max_drop"] is not None:
        unit = "% of perplexity" if steps is not None else "points"
        rows.append(("goal", goal_text(result, evaluation.loss, unit)))
    if not evaluation.class_scores.yes:
        rows.append(("outputs", f"no class scores: {evaluation.class_scores.why}"))
    if network.weights == "random":
        rows.append(("weights", "RANDOM: accuracy means nothing"))
    others = [result[role] for role in ("reference", "against") if result[role]]
    against = f" against {' and '.join(others)}" if others else ""
    return [Text(f"\n{result['network']} ({network.kind.upper()}){against}", "bold"), grid_of(rows)]


def _comparison_row(comparison: Comparison, noun: SampleNoun) -> tuple[str, str]:
    """The label and the text of a paired comparison."""
    from quantkit.evaluation.paired import Paired
    from quantkit.evaluation.perplexity import PerplexityChange

    label, paired = "to reference" if comparison.other == "reference" else "to other", comparison.result
    if isinstance(paired, PerplexityChange):
        return label, f"{comparison.measure} {paired.text}: {paired.verdict}"
    if not isinstance(paired, Paired) and comparison.measure == "cosine":
        interval = f"[{paired.low:+.2g}, {paired.high:+.2g}]"
        return label, f"{comparison.measure} {paired.difference:+.2g} {interval}: {paired.verdict}"
    points, low, high = (100 * value for value in (paired.difference, paired.low, paired.high))
    text = f"{comparison.measure} {points:+.2f} points [{low:+.2f}, {high:+.2f}]: {paired.verdict}"
    if not isinstance(paired, Paired):
        return label, text
    return label, (
        f"{text}\n{paired.first_only} {noun}s won, {paired.other_only} lost; McNemar p = {paired.p_value:.2g}"
    )
