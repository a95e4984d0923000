"""The families of GluonCV's zoo: what their networks are for, what they read, and how they are built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, Optional, get_args

from quantkit.data.boxes import BoxCorners
from quantkit.data.preprocess import Preprocess
from quantkit.data.voc_classes import VOC_CLASSES
from quantkit.errors import ModelError

Task = Literal[
    "classification", "detection", "segmentation", "pose", "action", "depth", "tracking", "embedding", "language"
]
"""What a network is for, by which its outputs are read."""

WITHOUT_CLASS_SCORES: tuple[Task, ...] = ("detection", "segmentation", "pose", "depth", "tracking", "embedding")
"""The tasks of networks whose outputs are no class scores."""

Shape = tuple[int, ...]
Options = tuple[tuple[str, object], ...]

_INT8_SUFFIX = "_int8"


@dataclass(frozen=True)
class Family:
    """Networks that are built, fed and judged alike.

    Attributes:
        name: of the architecture; families of several input sizes share one.
        task: what they are for.
        patterns: globs that their names match.
        input_shape: of one input, without the batch.
        preprocess: of photographs; None where the input is no photograph.
        options: what GluonCV's functions for them take, so that they fetch nothing.
        sized: whether they are built for one height and width.
        box_corners: of detectors: what the corners of their boxes are, as GluonCV trains and judges them.
    """

    name: str
    task: Task
    patterns: tuple[str, ...]
    input_shape: Shape = (3, 224, 224)
    preprocess: Optional[Preprocess] = None
    options: Options = ()
    sized: bool = False
    box_corners: BoxCorners = "edges"

    def options_at(self, name: str, shape: Shape, labels: Sequence[str] = ()) -> Options:
        """What GluonCV's function for the network ``name`` takes, for an input of ``shape``.

        ``labels`` are the names of the classes of networks without a data set of their own; without any, VOC's.
        """
        size = (("height", shape[1]), ("width", shape[2])) if self.sized and len(shape) == 3 else ()
        own = "custom" in name.split("_") and self.task == "detection"
        return (*self.options, *size, *((("classes", tuple(labels) or VOC_CLASSES),) if own else ()))


_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

CIFAR = Preprocess(resize=32, crop=32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))


# Each side is scaled to the input on its own, but for CenterNet and R-CNN, which keep the proportions.
_STRETCHED = Preprocess(mean=_MEAN, std=_STD, fit="stretch")
_BOXED = Preprocess(mean=_MEAN, std=_STD, fit="letterbox")
_ALPHA_POSE = Preprocess(mean=(0.406, 0.457, 0.480), fit="stretch")


def _square(side: int, resize: Optional[int] = None) -> Preprocess:
    """GluonCV's preprocessing to a square; of classifiers the short side becomes 8/7 of it."""
    return Preprocess(resize=round(side * 256 / 224) if resize is None else resize, crop=side, mean=_MEAN, std=_STD)


def _classifiers(name: str, *patterns: str, side: int = 224) -> Family:
    return Family(name, "classification", patterns, (3, side, side), _square(side))


def _small(name: str, pattern: str) -> Family:
    return Family(name, "classification", (pattern,), (3, 32, 32), CIFAR)


_NO_BASE: Options = (("pretrained_base", False),)
_NO_KINETICS: Options = (*_NO_BASE, ("use_kinetics_pretrain", False))


def _detectors(name: str, pattern: str, side: int, preprocess: Preprocess = _STRETCHED) -> Family:
    return Family(name, "detection", (pattern,), (3, side, side), preprocess, _NO_BASE, box_corners="pixels")


def _rcnn(pattern: str, options: Options, box_corners: BoxCorners) -> Family:
    return Family("rcnn", "detection", (pattern,), (3, 600, 800), _BOXED, options, box_corners=box_corners)


def _segmenters(name: str, pattern: str, side: int = 480) -> Family:
    # The short side becomes that of the crop; GluonCV's ``base_size`` is the long side in its evaluator alone.
    return Family(name, "segmentation", (pattern,), (3, side, side), _square(side, side), _NO_BASE, sized=True)


def _frames(name: str, *patterns: str, side: int = 224, options: Options = _NO_BASE) -> Family:
    return Family(name, "action", patterns, (3, side, side), _square(side), options)


def _clips(name: str, *patterns: str, frames: int, side: int, options: Options = _NO_BASE) -> Family:
    return Family(name, "action", patterns, (3, frames, side, side), options=options)


# What GluonCV leaves to the caller: five levels, and regions of 14x14, which their heads halve.
_PYRAMID: Options = (
    *_NO_BASE,
    ("min_stage", 2),
    ("max_stage", 6),
    ("strides", (4, 8, 16, 32, 64)),
    ("scales", (2, 4, 8, 16, 32)),
    ("alloc_size", (384, 384)),
    ("roi_size", (14, 14)),
)
FAMILIES = (
    _detectors("ssd", "ssd_300_*", 300),
    _detectors("ssd", "ssd_512_*", 512),
    _detectors("yolo3", "yolo3_*", 416),
    _detectors("center_net", "center_net_*", 512, _BOXED),
    # GluonCV's data for instance segmentation have edges, all others for detection have pixels.
    _rcnn("custom_mask_rcnn_fpn", _PYRAMID, "edges"),
    _rcnn("mask_rcnn_*", _NO_BASE, "edges"),
    _rcnn("custom_faster_rcnn_fpn", _PYRAMID, "pixels"),
    _rcnn("*_rcnn_*", _NO_BASE, "pixels"),
    _segmenters("fcn", "fcn_*"),
    _segmenters("psp", "psp_*"),
    _segmenters("deeplab", "deeplab_*"),
    _segmenters("danet", "danet_*"),
    _segmenters("icnet", "icnet_*"),
    _segmenters("fastscnn", "fastscnn_*", side=1024),
    replace(_segmenters("hrnet", "hrnet_*_s"), options=(), sized=False),
    Family("simple_pose", "pose", ("simple_pose_*",), (3, 256, 192), _STRETCHED),
    Family("mobile_pose", "pose", ("mobile_pose_*",), (3, 256, 192), _STRETCHED),
    Family("alpha_pose", "pose", ("alpha_pose_*",), (3, 256, 192), _ALPHA_POSE, _NO_BASE),
    _frames("vgg", "vgg16_ucf101", "vgg16_hmdb51", "vgg16_kinetics400", "vgg16_sthsthv2"),
    _frames("inceptionv1", "inceptionv1_*"),
    _frames("inceptionv3", "inceptionv3_*", side=299),
    _frames("resnet", "resnet*_v1b_custom", options=_NO_KINETICS),
    _frames("resnet", "resnet*_v1b_[uhks]*"),
    _clips("c3d", "c3d_*", frames=16, side=112, options=()),
    _clips("p3d", "p3d_*", frames=16, side=160),
    _clips("r2plus1d", "r2plus1d_*", frames=16, side=112),
    _clips("i3d", "i3d_inceptionv3_*", frames=32, side=299),
    _clips("i3d", "i3d_slow_*", frames=16, side=224),
    _clips(
        "i3d", "i3d_resnet50_v1_ucf101", "i3d_resnet50_v1_hmdb51", "i3d_*_custom",
        frames=32, side=224, options=_NO_KINETICS,
    ),
    _clips("i3d", "i3d_*", frames=32, side=224),
    _clips("slowfast", "slowfast_*_custom", frames=36, side=224, options=_NO_KINETICS),
    # The frames of the fast path, then those of the slow one.
    _clips("slowfast", "slowfast_4x16_*", frames=32 + 4, side=224),
    _clips("slowfast", "slowfast_8x8_*", frames=32 + 8, side=224),
    _clips("slowfast", "slowfast_16x8_*", frames=64 + 16, side=224),
    Family("monodepth2", "depth", ("monodepth2_*_posenet_*",), (6, 192, 640), options=_NO_BASE),
    Family("monodepth2", "depth", ("monodepth2_*",), (3, 192, 640), Preprocess(fit="stretch"), _NO_BASE),
    # The surroundings, 287 pixels square, and to the right of them the target, 127 pixels square, from the top on.
    Family("siamrpn", "tracking", ("siamrpn_*",), (3, 287, 287 + 127)),
    _small("resnet", "cifar_resnet*"),
    _small("resnext", "cifar_resnext*"),
    _small("wideresnet", "cifar_wideresnet*"),
    _small("residualattentionnet", "cifar_residualattentionnet*"),
    _classifiers("alexnet", "alexnet"),
    _classifiers("darknet", "darknet*"),
    _classifiers("densenet", "densenet*"),
    _classifiers("dla", "dla*"),
    replace(_classifiers("googlenet", "googlenet"), options=_NO_BASE),
    _classifiers("hrnet", "hrnet_*_c"),
    _classifiers("inception_bn", "inception_bn"),
    _classifiers("inceptionv3", "inceptionv3", side=299),
    _classifiers("mobilenet", "mobilenet*"),
    _classifiers("nasnet", "nasnet_4_*"),
    _classifiers("nasnet", "nasnet_6_*", side=331),
    _classifiers("nasnet", "nasnet_*", side=299),
    _classifiers("residualattentionnet", "residualattentionnet*"),
    _classifiers("resnest", "resnest101", side=256),
    _classifiers("resnest", "resnest200", side=320),
    _classifiers("resnest", "resnest269", side=416),
    _classifiers("resnest", "resnest*"),
    _classifiers("resnet", "resnet*", "se_resnet*"),
    _classifiers("resnext", "resnext*", "se_resnext*"),
    _classifiers("senet", "senet_*"),
    _classifiers("shufflenet", "shufflenet_*"),
    _classifiers("squeezenet", "squeezenet*"),
    _classifiers("vgg", "vgg*"),
    _classifiers("xception", "xception*", side=299),
)  # fmt: skip
"""The first whose pattern a name matches is its family."""


def family_of(name: str) -> Optional[Family]:
    """The family of a network by its name in GluonCV's zoo; None if it is of none."""
    fp32 = fp32_name(name) or name
    return next((each for each in FAMILIES if any(fnmatchcase(fp32, pattern) for pattern in each.patterns)), None)


def corners_of(name: str, task: Optional[Task]) -> BoxCorners:
    """The corners of the boxes of a network for ``task`` with this name where nobody says them: its family's."""
    family = family_of(name) if task == "detection" else None
    return "edges" if family is None else family.box_corners


def fp32_name(name: str) -> Optional[str]:
    """The name of the FP32 network that one of GluonCV's own INT8 networks has its weights from; None for others."""
    return name.removesuffix(_INT8_SUFFIX) if name.endswith(_INT8_SUFFIX) else None


def check_task(task: Optional[Task], class_scores: Optional[bool]) -> None:
    """Make sure that there is such a task, and that it does not contradict what is said of the outputs.

    Raises:
        ModelError: it does, or there is none.
    """
    if task is not None and task not in get_args(Task):
        raise ModelError(f"there is no task {task!r}; give one of {', '.join(get_args(Task))}")
    if class_scores and task in WITHOUT_CLASS_SCORES:
        raise ModelError(
            f"networks for {task} put out no class scores; leave out either the task, or --classes (class_scores=True)"
        )
