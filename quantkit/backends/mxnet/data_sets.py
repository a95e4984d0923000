"""The names of the classes in GluonCV's data sets, for networks that do not hold them."""

from __future__ import annotations

from importlib import import_module

from quantkit.backends.mxnet.compat import load_gluoncv

# By the end of a network's name: where GluonCV keeps the names, and under what. HRNet's ends in what it is for.
_SETS = {
    "voc": ("pascal_voc.segmentation", "VOCSegmentation"),
    "ade": ("ade20k.segmentation", "ADE20KSegmentation"),
    "coco": ("mscoco.segmentation", "COCOSegmentation"),
    "citys": ("cityscapes", "CitySegmentation"),
    "s": ("cityscapes", "CitySegmentation"),
    "mhpv1": ("mhp", "MHPV1Segmentation"),
    "kinetics400": ("kinetics400.classification", "Kinetics400Attr"),
    "kinetics700": ("kinetics700.classification", "Kinetics700Attr"),
    "ucf101": ("ucf101.classification", "UCF101Attr"),
    "hmdb51": ("hmdb51.classification", "HMDB51Attr"),
    "sthsthv2": ("somethingsomethingv2.classification", "SomethingSomethingV2Attr"),
}


def data_set_classes(name: str) -> tuple[str, ...]:
    """The names of the classes of the data set that a segmentation or action network is named after; empty if none."""
    if (found := _SETS.get(name.rpartition("_")[2])) is None:
        return ()
    load_gluoncv()
    module, attribute = found
    source = getattr(import_module(f"gluoncv.data.{module}"), attribute)
    # Those of videos are made with each object.
    return tuple(source.CLASSES if hasattr(source, "CLASSES") else source().classes)
