"""Bundles that are served: what their tensors mean, and what they answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any, Optional

import numpy as np

from quantkit.data.decode import stored_size
from quantkit.data.joined_inputs import JoinedInput
from quantkit.data.preprocess import Preprocess, needed_size
from quantkit.data.resizing import Size
from quantkit.deployment.inputs import Images
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.serving.messages import InferenceRequest
from quantkit.deployment.serving.tensors import BYTES, Tensor
from quantkit.errors import DataError

# Writing a value as text takes half a microsecond, in which nothing else runs.
_MOST_LISTED = 250_000


@dataclass(frozen=True, eq=False)
class Served:
    """A bundle under a name and a version.

    Attributes:
        name: in addresses.
        version: as well.
        predictor: runs it.
        pixels: the most of all image files of a request together.
    """

    name: str
    version: str
    predictor: Predictor
    pixels: int

    def metadata(self) -> dict[str, Any]:
        """What the protocol tells of a model; -1 stands for batches of any size.

        Beyond the protocol, ``parameters`` tell the names of classes, and what else than the network's own input is
        read: image files as BYTES, and their pixels as UINT8.
        """
        manifest = self.predictor.manifest
        inputs = [_described(name, each.shape, each.vocabulary is not None) for name, each in self._inputs.items()]
        if self._reads_images:
            inputs[0]["parameters"] = {"image_files": f"{BYTES} [-1]", "pixels": "UINT8 [-1, height, width, 3]"}
        outputs = [_described(output.name, output.shape, False) for output in manifest.outputs]
        if self.predictor.labels and manifest.class_scores:
            outputs[0]["parameters"] = {"labels": list(self.predictor.labels)}
        return {
            "name": self.name,
            "platform": f"quantkit_{self.predictor.engine}",
            "inputs": inputs,
            "outputs": outputs,
        }

    def check(self, request: InferenceRequest, tensors: Sequence[Tensor]) -> None:
        """Check that a request's tensors are the network's, and what it asks for.

        Raises:
            DataError: they are not.
        """
        names = [output.name for output in self.predictor.manifest.outputs]
        for output in request.wanted:
            self._check_output(output.name, output.given.classification, names)
        given = [tensor.name for tensor in tensors]
        if sorted(given) != sorted(self._inputs):
            told = ", ".join(map(repr, given[:10])) or "none"
            raise DataError(f"the request has the inputs {told}; the model reads {', '.join(map(repr, self._inputs))}")
        for tensor in tensors:
            if not tensor.shape:
                raise DataError(f"input {tensor.name!r} has no batch axis")
        values = _sample_count(tensors) * sum(self._listed(request))
        if values > _MOST_LISTED:
            raise DataError(
                f"the answer would list {values} values, and this server lists {_MOST_LISTED}; ask for the outputs as "
                "bytes (binary_data), or for fewer samples"
            )

    def _listed(self, request: InferenceRequest) -> Iterator[int]:
        """How many values of each output the answer lists for a sample: those of JSON, and classes."""
        tops = self._tops(request)
        for output in self.predictor.manifest.outputs:
            if output.name in tops:
                top = tops[output.name]
                if top is not None:
                    yield min(top, prod(output.shape))
                elif not request.as_bytes(output.name):
                    yield prod(output.shape)

    def _tops(self, request: InferenceRequest) -> dict[str, Optional[int]]:
        """Of how many classes the answer tells, by the outputs that a request asks for; None: it has the values."""
        if request.wanted:
            return {output.name: output.given.classification for output in request.wanted}
        return dict.fromkeys(output.name for output in self.predictor.manifest.outputs)

    def size(self, tensors: Sequence[Tensor]) -> int:
        """The bytes of what the network reads and puts out for the samples of a request, float32."""
        shapes = [self.predictor.input_shape, *(output.shape for output in self.predictor.manifest.outputs)]
        return 4 * _sample_count(tensors) * sum(map(prod, shapes))

    def takes_as_it_is(self, tensors: Sequence[Tensor]) -> bool:
        """Whether tensors hold what the network reads, so that nothing is to be decoded or scaled."""
        return not self._joined and tensors[0].datatype == "FP32"

    def batches(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """What the network reads of the tensors of a request that ``check`` has passed.

        Raises:
            DataError: they hold what it cannot read, or too many pixels.
        """
        return list(self.predictor.batches(self._samples(tensors)))

    async def outputs(self, request: InferenceRequest, batches: Sequence[np.ndarray], timeout: float) -> list[Tensor]:
        """The outputs that a request asks for; all, if it names none.

        Raises:
            QuantkitError: they cannot be computed, or not in time.
        """
        names = [output.name for output in self.predictor.manifest.outputs]
        found = dict(zip(names, await self.predictor.outputs_async(batches, timeout)))
        return [
            Tensor(name, "FP32", found[name].shape, found[name])
            if top is None
            else self._classes(found[name], name, top)
            for name, top in self._tops(request).items()
        ]

    def _check_output(self, name: str, top: Optional[int], names: Sequence[str]) -> None:
        if name not in names:
            raise DataError(f"the model has no output {name!r}, but {', '.join(map(repr, names))}")
        if top is not None and not (self.predictor.manifest.class_scores and name == names[0]):
            raise DataError(f"output {name!r} has no classes; leave out its parameter classification")

    def _samples(self, tensors: Sequence[Tensor]) -> Images:
        """Files, pixels or what the network reads, from the tensors of a request."""
        if self._joined:
            return {tensor.name: _array(tensor) for tensor in tensors}
        values = tensors[0].values
        if isinstance(values, np.ndarray):
            # One of the network's own rank would be taken for a single sample.
            if values.ndim != len(self.predictor.input_shape) + 1:
                name, shape = tensors[0].name, list(values.shape)
                raise DataError(f"input {name!r} has shape {shape}; its first axis must be that of the batch")
            if self._reads_images and values.dtype == np.uint8:
                self._check_pixels(0, len(values), (values.shape[1], values.shape[2]))
            return values
        if not self._reads_images:
            raise DataError(f"input {tensors[0].name!r} is {BYTES}, and the model reads no image files")
        return self._files(values)

    def _files(self, files: Sequence[bytes]) -> Iterator[bytes]:
        pixels = 0
        for number, file in enumerate(files):
            pixels = self._check_pixels(pixels, 1, stored_size(BytesIO(file), str(number)))
            yield file

    def _check_pixels(self, pixels: int, images: int, size: Size) -> int:
        """The pixels of a request with so many more images of a size, as they are or as they are scaled to."""
        scaled = size
        if self.predictor.preprocess is not None and min(size) > 0:
            scaled = needed_size(self.predictor.preprocess, self.predictor.input_shape, size)
        pixels += images * max(prod(size), prod(scaled))
        if pixels > self.pixels:
            raise DataError(
                f"the images have more than {self.pixels} pixels together, in the files or as they are scaled to; send "
                "fewer or smaller ones"
            )
        return pixels

    def _classes(self, outputs: np.ndarray, name: str, top: int) -> Tensor:
        """The classes with the largest outputs, as Triton writes them: value, index and label."""
        rows = outputs.reshape(len(outputs), -1)
        best = np.argsort(-rows, axis=1, kind="stable")[:, :top]
        labels = self.predictor.labels
        texts = tuple(
            f"{row[index]:.6f}:{index}{f':{labels[index]}' if labels else ''}".encode()
            for row, indices in zip(rows, best)
            for index in indices
        )
        return Tensor(name, BYTES, best.shape, texts)

    @property
    def _inputs(self) -> Mapping[str, JoinedInput]:
        own = self.predictor.manifest.input
        return {each.name: each for each in self._joined or (JoinedInput(own.name, own.shape, own.vocabulary),)}

    @property
    def _joined(self) -> tuple[JoinedInput, ...]:
        joined = self.predictor.manifest.input.several
        return () if joined is None else joined.inputs

    @property
    def _reads_images(self) -> bool:
        return isinstance(self.predictor.preprocess, Preprocess)


def _sample_count(tensors: Sequence[Tensor]) -> int:
    """How many samples a request has; each element of type BYTES is an image file, whatever the tensor's shape."""
    first = tensors[0]
    return prod(first.shape) if first.datatype == BYTES else first.shape[0]


def _described(name: str, shape: Sequence[int], reads_ids: bool) -> dict[str, Any]:
    return {"name": name, "datatype": "INT64" if reads_ids else "FP32", "shape": [-1, *shape]}


def _array(tensor: Tensor) -> np.ndarray:
    if not isinstance(tensor.values, np.ndarray):
        raise DataError(f"input {tensor.name!r} is {BYTES}; the model reads numbers")
    return tensor.values
