"""The targets of fuzzing: which loader reads the bytes, and how these are best changed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz import mutators
from tests.fuzz.mutators import Mutator
from tests.loaders import LOADERS, Loader


@dataclass(frozen=True)
class Target:
    """The first of ``loaders`` says what the file is called and what lies beside it; each reads it."""

    name: str
    loaders: tuple[Loader, ...]
    mutator: Mutator = mutators.plain

    @property
    def seeds(self) -> list[bytes]:
        """Sound files."""
        return [loader.sound() for loader in self.loaders]


def _named(*names: str) -> tuple[Loader, ...]:
    by_name = {loader.name: loader for loader in LOADERS}
    return tuple(by_name[name] for name in names)


TARGETS = {
    target.name: target
    for target in (
        Target("params", _named("params")),
        Target("symbol", _named("symbol"), mutators.json_text),
        Target("npz", _named("npz samples", "npz samples, compressed", "npz weights"), mutators.npz),
        Target("npy", _named("npy", "npy samples"), mutators.npy),
        Target("rec", _named("rec"), mutators.rec),
        Target("image", tuple(loader for loader in LOADERS if loader.name.startswith("image")), mutators.png),
        Target("mask", _named("mask"), mutators.png),
        Target("voc", _named("voc annotation"), mutators.xml),
        Target("coco", _named("coco annotations", "coco images"), mutators.json_text),
        Target("labels-csv", _named("labels.csv")),
        Target("card", _named("card")),
        Target("manifest", _named("manifest"), mutators.json_text),
        Target("quantization", _named("quantization"), mutators.json_text),
        Target("training-record", _named("record of a training"), mutators.json_text),
        Target("table", _named("table"), mutators.json_text),
        Target("journal", _named("journal"), mutators.json_lines),
        Target("engines", _named("engines"), mutators.json_text),
        Target("suite", _named("suite")),
        Target("result", _named("result"), mutators.json_text),
        Target("safetensors", _named("safetensors"), mutators.safetensors),
        Target("onnx", _named("onnx", "recurrent onnx", "attending onnx"), mutators.onnx),
        Target("onnx-bundle", _named("onnx of a bundle", "onnx of a bundle, with an LSTM layer"), mutators.onnx),
        Target("onnx-external", _named("onnx beside its weights"), mutators.onnx),
    )
}
