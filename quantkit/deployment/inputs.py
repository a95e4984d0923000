"""What a deployment hands to a network, files, pixels or arrays, as batches of the network's input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from quantkit.data.arrays import numpy_by_name
from quantkit.data.decode import Reduced, decode, decode_reduced
from quantkit.data.joined_inputs import JoinedInputs, record_of
from quantkit.data.prefetch import prefetched
from quantkit.data.preparation import Preparation, network_input
from quantkit.data.preprocess import Preprocess, check_input, full_size, input_pixels, needed_size, normalized
from quantkit.data.sample_noun import SampleNoun, sample_noun
from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import DataError
from quantkit.host.threads import worker_threads
from quantkit.lowering.input_quantizer import InputQuantizer

Image = Union[np.ndarray, str, "os.PathLike[str]", bytes, Mapping[str, np.ndarray]]
"""A file or its content, uint8 RGB pixels of shape (height, width, 3), or preprocessed float32 of shape (channels,
height, width); for a network with several inputs, an array for each by its name."""

Images = Union[Image, Iterable[Image]]
"""One image or several; an image is a file or its content (bytes), uint8 RGB pixels of shape (height, width, 3), or
preprocessed float32 of shape (channels, height, width). For a network with several inputs, a dictionary with an array
for each by its name."""

LARGEST_BATCH = 16
"""The most samples that are handed to a network at once; engines prepare it for each batch size."""

# Pixels are prepared in threads if there are more than so many times what the network reads. Fewer are hardly scaled,
# and starting and waking threads takes longer.
_LARGE = 2


class NamedArray(NamedTuple):
    """One sample as it was given, from a file or an array, and its name for messages."""

    array: np.ndarray
    name: str


@dataclass(frozen=True)
class InputReader:
    """Reads samples for a network.

    Attributes:
        shape: of one input without the batch.
        preparation: how samples become the input.
        reduced: whether JPEG files are decoded at a fraction of their size where that is enough.
        quantizer: what the network would do with its input; None where it needs the values. Pixels become its
            integers at once: they are a quarter of the size, and the network need not quantize them.
        workers: threads that read files and large images; None: one for each hardware thread, 16 at most.
    """

    shape: tuple[int, ...]
    preparation: Preparation
    reduced: bool = False
    quantizer: Optional[InputQuantizer] = None
    workers: Optional[int] = None

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """What batches may be of."""
        return (np.dtype(np.float32), *(() if self.quantizer is None else (np.dtype(self.quantizer.dtype),)))

    @property
    def noun(self) -> SampleNoun:
        """What one sample is called."""
        return sample_noun(self.shape)

    def batches(self, samples: Any) -> Iterator[np.ndarray]:
        """Batches of the network's input, float32 or integers; a stream is read as far as the batch needs.

        Args:
            samples: one sample, or several.

        Raises:
            DataError: a sample cannot be read, or does not fit; the message names it.
        """
        listed = self._listed(samples)
        floats = isinstance(listed, np.ndarray) and listed.dtype == np.float32 and self._reads_one_of_floats
        if isinstance(listed, np.ndarray) and floats and listed.shape[1:] == self.shape:
            yield from self._slices(listed)
            return
        for chunk in self._chunks(listed, self.reduced):
            yield self._stacked(chunk)

    def with_samples(self, samples: Any) -> Iterator[tuple[list[NamedArray], np.ndarray]]:
        """The batches with the samples as they are given, in their own size; see ``batches``."""
        for chunk in self._chunks(self._listed(samples), reduced=False):
            yield [sample for sample, _ in chunk], self._stacked(chunk)

    def _chunks(self, listed: Iterable[Any], reduced: bool) -> Iterator[list[tuple[NamedArray, np.ndarray]]]:
        """The samples and what the network reads of each, as many at a time as are run at once.

        Files and large images are read in further threads, while the network runs.
        """
        numbered = enumerate(listed)
        begun = list(islice(numbered, 2))
        # One alone, and arrays that are what the network reads, would wait for the threads to start.
        several = len(begun) > 1 and self._takes_time(begun[0][1])
        workers = (self.workers or worker_threads()) if several else 0
        prepared = partial(self._prepared, reduced=reduced)
        stream = prefetched(prepared, chain(begun, numbered), workers, LARGEST_BATCH + workers)
        with closing(stream):
            while chunk := list(islice(stream, LARGEST_BATCH)):
                yield chunk

    def _stacked(self, chunk: Iterable[tuple[NamedArray, np.ndarray]]) -> np.ndarray:
        """What the network reads of some samples; integers, if any of them are."""
        batch = [data for _, data in chunk]
        if self.quantizer is not None and len({data.dtype for data in batch}) > 1:
            batch = [data if data.dtype == self.quantizer.dtype else self.quantizer.quantize(data) for data in batch]
        return np.stack(batch)

    def _takes_time(self, sample: Any) -> bool:
        """Whether a sample is a file, or pixels of which there are many more than the network reads."""
        if isinstance(sample, np.ndarray) and sample.dtype == np.uint8:
            return sample.size > _LARGE * prod(self.shape)
        return isinstance(sample, (str, os.PathLike, bytes))

    def _prepared(self, numbered: tuple[int, Any], reduced: bool) -> tuple[NamedArray, np.ndarray]:
        """A sample, and what the network reads of it.

        Raises:
            DataError: it does not fit.
        """
        index, given = numbered
        if reduced and isinstance(given, (str, os.PathLike)) and isinstance(self.preparation, Preprocess):
            return self._prepared_reduced(self.preparation, os.fspath(given))
        sample = self._read(given, f"{self.noun} {index}")
        if self._table is not None and isinstance(self.preparation, Preprocess) and sample.array.dtype == np.uint8:
            return sample, self._pixels(self.preparation, full_size(sample.array, sample.name), sample.name)
        return sample, network_input(self.preparation, sample.array, self.shape, sample.name)

    def _prepared_reduced(self, preprocess: Preprocess, file: str) -> tuple[NamedArray, np.ndarray]:
        reduced = decode_reduced(Path(file), file, partial(needed_size, preprocess, self.shape))
        return NamedArray(reduced.pixels, file), self._pixels(preprocess, reduced, file)

    def _pixels(self, preprocess: Preprocess, image: Reduced, name: str) -> np.ndarray:
        """What the network reads of an image."""
        pixels = input_pixels(preprocess, image, name, self.shape)
        return normalized(preprocess, pixels) if self._table is None else _looked_up(self._table, pixels)

    @cached_property
    def _table(self) -> Optional[np.ndarray]:
        """The integers of each channel's 256 levels, of shape (3, 256); None where pixels become float32."""
        if self.quantizer is None or not isinstance(self.preparation, Preprocess):
            return None
        levels = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 1, 256))
        values = normalized(self.preparation, levels)
        return self.quantizer.quantize(values)[:, 0] if np.isfinite(values).all() else None

    def _listed(self, samples: Any) -> Iterable[Any]:
        """One sample or several as several."""
        if isinstance(samples, Mapping):
            return self._records(samples)
        if hasattr(samples, "asnumpy"):
            samples = samples.asnumpy()
        if isinstance(samples, (str, os.PathLike, bytes)):
            return [samples]
        if isinstance(samples, np.ndarray) and samples.ndim == len(self.shape):
            return samples[None]
        if isinstance(samples, np.ndarray) and samples.ndim != len(self.shape) + 1:
            if isinstance(self.preparation, JoinedInputs):
                raise DataError(f"the samples are one array of shape {samples.shape}; give {self._readable}")
            kind = "float32" if self._reads_floats else "int64 token ids"
            pixels = "uint8 of shape (images, height, width, 3) or " if len(self.shape) == 3 else ""
            raise DataError(
                f"the {self.noun}s are {samples.dtype} of shape {samples.shape}; give {pixels}{kind} of shape "
                f"({self.noun}s, {', '.join(map(str, self.shape))})"
            )
        if not hasattr(samples, "__iter__"):
            raise DataError(f"{type(samples).__name__} is not an array; give {self._readable}")
        several: Iterable[Any] = samples
        return several

    def _records(self, samples: Mapping[str, Any]) -> Iterable[Any]:
        """One sample, or several, of a network with several inputs."""
        values = numpy_by_name(samples, f"the {self.noun}")
        joined = self.preparation.inputs if isinstance(self.preparation, JoinedInputs) else ()
        if any(values[each.name].shape == each.shape for each in joined if each.name in values):
            return [values]
        for name, array in values.items():
            if not array.ndim:
                raise DataError(f"input {name!r} of the {self.noun}s is no array; give {self._readable}")
        numbers = {name: len(array) for name, array in values.items()}
        if len(set(numbers.values())) != 1:
            held = ", ".join(f"{number} in {name!r}" for name, number in numbers.items()) or "none"
            raise DataError(f"the {self.noun}s differ in number: {held}; give as many for each of the network's inputs")
        return ({name: array[index] for name, array in values.items()} for index in range(next(iter(numbers.values()))))

    @property
    def _readable(self) -> str:
        if self.noun == "image":
            return "files, or arrays of uint8 pixels or float32 input"
        if isinstance(self.preparation, JoinedInputs):
            return f"a dictionary with an array for each of the network's inputs, {self.preparation}"
        kind = "float32" if self._reads_floats else "int32 or int64 token ids"
        return f"arrays of {kind} of shape {self.shape}"

    @property
    def _reads_one_of_floats(self) -> bool:
        return self._reads_floats and not isinstance(self.preparation, JoinedInputs)

    @property
    def _reads_floats(self) -> bool:
        return not isinstance(self.preparation, Vocabulary)

    def _slices(self, samples: np.ndarray) -> Iterator[np.ndarray]:
        """Preprocessed input in batches, as views."""
        for start in range(0, len(samples), LARGEST_BATCH):
            batch = samples[start : start + LARGEST_BATCH]
            if not np.isfinite(batch).all():
                for index, sample in enumerate(batch, start):
                    check_input(sample, self.shape, f"{self.noun} {index}")
            yield batch

    def _read(self, sample: Any, name: str) -> NamedArray:
        if isinstance(sample, (str, os.PathLike)):
            name = os.fspath(sample)
            sample = decode(Path(name), name)
        elif isinstance(sample, bytes):
            sample = decode(BytesIO(sample), name)
        elif hasattr(sample, "asnumpy"):
            sample = sample.asnumpy()
        elif isinstance(sample, Mapping):
            sample = record_of(numpy_by_name(sample, name))
        if not isinstance(sample, np.ndarray):
            raise DataError(f"{name} is a {type(sample).__name__}, not an array; give {self._readable}")
        return NamedArray(sample, name)


def _looked_up(table: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Each pixel's entry in its channel's row of the table."""
    found = np.empty(pixels.shape, table.dtype)
    for row, plane, place in zip(table, pixels, found):
        # Levels cannot be out of range, and other modes copy.
        np.take(row, plane, out=place, mode="clip")
    return found
