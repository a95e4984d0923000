"""Predictor: runs a bundle's network in a deployment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Optional, Union

import numpy as np

from quantkit.bundle.read import Bundle
from quantkit.data.decode import decode
from quantkit.data.preparation import network_input
from quantkit.data.preprocess import check_input
from quantkit.data.sample_noun import sample_noun
from quantkit.deployment.fastest import open_fastest
from quantkit.deployment.network import AUTO, RunningNetwork, default_engine, open_network
from quantkit.errors import DataError, EngineError, UserError
from quantkit.host.process import OwnProcess
from quantkit.kinds import whole_number
from quantkit.models.class_scores import is_row

Image = Union[np.ndarray, str, "os.PathLike[str]"]
"""A file, uint8 RGB pixels of shape (height, width, 3), or preprocessed float32 of shape (channels, height, width)."""

Images = Union[Image, Iterable[Image]]
"""One image or several; an image is a file, uint8 RGB pixels of shape (height, width, 3), or preprocessed float32 of
shape (channels, height, width)."""

# Engines prepare a network for each batch size, MXNet for powers of two.
_LARGEST_BATCH = 16


class Predictor:
    """A bundle's network, ready to run.

    Several threads may use it: they prepare their images in parallel and run the network in
    turns, each run with all of the engine's threads. It does not survive a fork: predicting in a child of the process
    that loaded it raises ``ForkError``. Start processes with spawn, or fork first and load it in the child.

    Attributes:
        name: the network's name.
        input_shape: of one input without the batch: (channels, height, width) of images; (features,) of vectors;
            (steps, features) of sequences, or (steps,) of token ids.
        labels: the names of its classes in the order of the outputs; empty if unknown.
        preprocess: how images become its input; None if unknown: then give preprocessed arrays.
        manifest: the bundle's manifest.
        engine: the name of the engine that runs the network.
    """

    def __init__(self, bundle: Bundle, allow_random_weights: bool = False, engine: Optional[str] = None) -> None:
        """Load the bundle's network in an engine.

        Args:
            bundle: the bundle.
            allow_random_weights: whether to load a network with random weights, whose predictions mean nothing.
            engine: ``mxnet``; ``onnxruntime`` or ``openvino``, for bundles with an ONNX file; ``auto``: the engine
                that runs one image fastest here, measured for a second or two the first time and
                remembered under ``QUANTKIT_HOME``; None: MXNet if it is installed, else another installed engine.

        Raises:
            UserError: the network has random weights and ``allow_random_weights`` is not given, or the engine needs
                an ONNX file and the bundle holds none.
            BundleError: symbol and parameters are not a network.
            EngineError: this engine cannot run it on this processor.
            EngineMissing: the engine, or any engine, is not installed.
        """
        if bundle.manifest.source.weights == "random" and not allow_random_weights:
            raise UserError(
                f"the network in {bundle.directory} has random weights, so its predictions mean nothing; "
                "to run it anyway, load it with allow_random_weights=True"
            )
        self.manifest = bundle.manifest
        self.name = bundle.manifest.name
        self.input_shape = bundle.manifest.input.shape
        self.labels = bundle.labels
        self.preprocess = bundle.preprocess
        self._preparation = bundle.preparation
        self._noun = sample_noun(self.input_shape)
        self._process = OwnProcess()
        self._lock = Lock()
        self._network = _loaded(bundle, engine)
        self.engine = self._network.engine

    def __repr__(self) -> str:
        """What is loaded, in which engine."""
        shape = "x".join(map(str, self.input_shape))
        return f"Predictor({self.name!r}, {self.manifest.kind}, input {shape}, engine {self.engine!r})"

    def predict(self, images: Images) -> np.ndarray:
        """The network's (first) output for each image: float32 of shape (images, ...).

        Args:
            images: one image, or several: an array with one more axis (uint8 NHWC, or preprocessed float32
                NCHW), or an iterable of files and arrays, also of different sizes, which is read a few at a time.

        Raises:
            DataError: an image cannot be read, has another dtype or shape, or holds NaN or infinite values;
                or it is a photograph and the preprocessing is unknown. The message names the image.
            EngineError: an output holds NaN or infinite values.
            BundleError: the outputs do not match the bundle's manifest.
            ForkError: this process is a fork of the one that loaded the network.
        """
        outputs = []
        start = 0
        for batch in self._batches(images):
            output = self._run(batch)
            if not np.isfinite(output).all():
                bad = next(index for index, values in enumerate(output, start) if not np.isfinite(values).all())
                raise EngineError(
                    f"the network {self.name!r} computes NaN or infinite values for {self._noun} {bad}; "
                    f"check the {self._noun}, and the bundle with `quantkit verify`"
                )
            outputs.append(output)
            start += len(batch)
        if not outputs:
            return np.empty((0, *self.manifest.outputs[0].shape), np.float32)
        return outputs[0] if len(outputs) == 1 else np.concatenate(outputs)

    def classify(self, images: Images, top: int = 5) -> list[list[tuple[str, float]]]:
        """The ``top`` classes of each image with their scores, best first.

        A class is named by its label, or by its index if labels are unknown. The score is the softmax of
        the network's outputs over all classes, from 0 to 1, or the output itself if the network ends
        in a softmax or sigmoid. It ranks the classes of one image; it is not a calibrated probability.

        Raises:
            UserError: ``top`` is no whole number from 1 up, or the network puts out no class scores, as the bundle's
                manifest says.
            DataError: as for ``predict``.
            EngineError: as for ``predict``.
        """
        top = whole_number("top", top, 1, 5)
        self._check_class_scores()
        outputs = self.predict(images)
        scores = outputs.reshape(len(outputs), -1) if len(outputs) else np.empty((0, 1), np.float32)
        if self.manifest.outputs[0].scores is None:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        ranked = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        return [[(self._label(index), float(row[index])) for index in best] for row, best in zip(scores, ranked)]

    def _check_class_scores(self) -> None:
        if not self.manifest.class_scores:
            outputs = ", ".join(f"{output.name!r} of shape {output.shape}" for output in self.manifest.outputs)
            advice = ", or, if the first is a row of class scores, quantize it again with --classes (class_scores=True)"
            raise UserError(
                f"the network {self.name!r} puts out no class scores but {outputs} for each {self._noun}; call "
                "predict()" + (advice if is_row(self.manifest.outputs[0].shape) else "")
            )

    def _label(self, index: int) -> str:
        return self.labels[index] if self.labels else str(index)

    def _run(self, batch: np.ndarray) -> np.ndarray:
        self._process.check(f"the Predictor of {self.name!r}")
        with self._lock:
            return self._network.run(batch)[0]

    def _batches(self, images: Any) -> Iterator[np.ndarray]:
        """Batches of the network's input."""
        if hasattr(images, "asnumpy"):
            images = images.asnumpy()
        if isinstance(images, (str, os.PathLike)) or (
            isinstance(images, np.ndarray) and images.ndim == len(self.input_shape)
        ):
            images = [images]
        if isinstance(images, np.ndarray):
            if images.ndim != len(self.input_shape) + 1:
                kind = "float32" if self._reads_floats else "int64 token ids"
                pixels = "uint8 of shape (images, height, width, 3) or " if len(self.input_shape) == 3 else ""
                raise DataError(
                    f"the {self._noun}s are {images.dtype} of shape {images.shape}; give {pixels}{kind} of shape "
                    f"({self._noun}s, {', '.join(map(str, self.input_shape))})"
                )
            if self._reads_floats and images.dtype == np.float32 and images.shape[1:] == self.input_shape:
                yield from self._slices(images)
                return
        if not hasattr(images, "__iter__"):
            raise DataError(f"{type(images).__name__} is not an array; give {self._readable}")
        stream = (self._prepared(image, f"{self._noun} {index}") for index, image in enumerate(images))
        while chunk := list(islice(stream, _LARGEST_BATCH)):
            yield np.stack(chunk)

    @property
    def _readable(self) -> str:
        if self._noun == "image":
            return "files, or arrays of uint8 pixels or float32 input"
        kind = "float32" if self._reads_floats else "int32 or int64 token ids"
        return f"arrays of {kind} of shape {self.input_shape}"

    @property
    def _reads_floats(self) -> bool:
        return self.manifest.input.vocabulary is None

    def _slices(self, images: np.ndarray) -> Iterator[np.ndarray]:
        """Preprocessed input in batches, as views."""
        for start in range(0, len(images), _LARGEST_BATCH):
            batch = images[start : start + _LARGEST_BATCH]
            if not np.isfinite(batch).all():
                for index, image in enumerate(batch, start):
                    check_input(image, self.input_shape, f"{self._noun} {index}")
            yield batch

    def _prepared(self, image: Any, name: str) -> np.ndarray:
        """One image as the network reads it."""
        if isinstance(image, (str, os.PathLike)):
            name = os.fspath(image)
            image = decode(Path(name), name)
        elif hasattr(image, "asnumpy"):
            image = image.asnumpy()
        if not isinstance(image, np.ndarray):
            raise DataError(f"{name} is a {type(image).__name__}, not an array; give {self._readable}")
        return network_input(self._preparation, image, self.input_shape, name)


def _loaded(bundle: Bundle, engine: Optional[str]) -> RunningNetwork:
    if engine == AUTO:
        return open_fastest(bundle)
    return open_network(bundle, default_engine(bundle) if engine is None else engine)
