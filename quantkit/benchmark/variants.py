"""The measured variants of a network, and the form that each engine runs for each variant.

A form is a network on disk: ``fp32``, ``stock``, ``fused`` and ``int8`` are MXNet's, ``onnx`` and ``onnx-int8`` are
ONNX files of the first and the last, and ``onnx-int8-dynamic`` holds LSTM layers as ONNX Runtime runs them in INT8;
forms from other quantizers, MXNet's own among them, have the names of their variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from quantkit.backends.registry import DEPLOYED, DEPLOYED_ONNX, MXNET, ONNXRUNTIME, OPENVINO
from quantkit.benchmark.build import Build
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle


@dataclass(frozen=True)
class Variant:
    """``title`` is its name in contestants' names; ``forms`` are the forms by engine, for engines that can run it.

    ``maker`` names the quantizer that made it, empty if that is quantkit or there is none.
    """

    title: str
    forms: Mapping[str, str]
    int8: bool = False
    maker: str = ""


VARIANTS: Mapping[str, Variant] = {
    "fp32": Variant("FP32", {MXNET.name: "fp32", **dict.fromkeys(DEPLOYED_ONNX, "onnx")}),
    "stock": Variant("stock", {MXNET.name: "stock"}),
    "fused": Variant("fused", {MXNET.name: "fused"}),
    "int8": Variant(
        "INT8",
        {MXNET.name: "int8", ONNXRUNTIME.name: "onnx-int8-dynamic", OPENVINO.name: "onnx-int8"},
        int8=True,
    ),
    "stock-int8": Variant("stock INT8", {MXNET.name: "stock-int8"}, int8=True, maker="MXNet"),
    "stock-int8-1.5": Variant("stock INT8", {MXNET.name: "stock-int8-1.5"}, int8=True, maker="MXNet"),
    "onnxruntime-ptq": Variant("PTQ", {ONNXRUNTIME.name: "onnxruntime-ptq"}, int8=True, maker="ONNX Runtime"),
    "onnxruntime-dynamic": Variant(
        "dynamic", {ONNXRUNTIME.name: "onnxruntime-dynamic"}, int8=True, maker="ONNX Runtime"
    ),
    "nncf": Variant("NNCF", {OPENVINO.name: "nncf"}, int8=True, maker="NNCF"),
}

STOCK = ("stock", "stock-int8", "stock-int8-1.5")
"""The variants that run as stock MXNet runs them, with its own fusion."""

DEFAULT_BUILDS = ("native", "here")
DEFAULT_VARIANTS = ("fp32", "fused", "int8")
"""What a network is measured in, and on which builds, where nothing else is asked for."""


def variants_of(spec: str, reference: Optional[str]) -> tuple[str, ...]:
    """The variants in which a network or a bundle is measured where none are asked for.

    A bundle without its reference, the network that it was made from, has only its own form.
    """
    return ("int8",) if is_bundle(spec) and reference is None else DEFAULT_VARIANTS


def can_run(build: Build, variant: str) -> bool:
    """Whether a build can run a variant: its engine has a form for it, and native builds run only fp32."""
    return build.engine in VARIANTS[variant].forms and (build.int8 or variant == "fp32")


def form_of(engine: str, variant: str) -> str:
    """The form that an engine runs for a variant.

    Raises:
        UserError: it cannot run any.
    """
    forms = VARIANTS[variant].forms
    if engine not in forms:
        possible = [name for name, each in VARIANTS.items() if engine in each.forms]
        raise UserError(f"{DEPLOYED[engine].title} cannot run the variant {variant}; it can run {', '.join(possible)}")
    return forms[engine]
