"""The classes of PASCAL VOC."""

from __future__ import annotations

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""The 20 classes of PASCAL VOC (Everingham et al. 2010), in the order of their indices in GluonCV's networks."""
