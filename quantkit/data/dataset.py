"""Calibration data: samples as one network reads them, decoded and preprocessed once for all stages."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.data.batch_stream import BatchStream
from quantkit.data.batches import Batch, batches, prepare
from quantkit.data.digests import digests_of, joint_digest
from quantkit.data.kept_samples import KeptSamples
from quantkit.data.left_out import LeftOut, in_order, none_left
from quantkit.data.preparation import Preparation
from quantkit.data.samples import Samples, first, skipping, take
from quantkit.data.sources import DataSource, load_data
from quantkit.errors import UserError
from quantkit.kinds import whole_number

CACHE_BYTES = 1 << 30
"""Bytes of preprocessed samples that a dataset caches; 1,781 of (3, 224, 224)."""


class CalibrationDataset:
    """Samples as one network reads them, each read and preprocessed once for all stages.

    Preprocessed samples stay in memory, shared with all subsets. Samples beyond ``cache_bytes`` are read again each
    time, so a source that can be iterated only once, such as a generator, has to fit, and other sources have to
    give the same samples in the same order each time.

    Args:
        data: anything that ``load_data`` takes.
        preparation: how samples become the network's input: a ``Preprocess`` for images, the ``Vocabulary`` of token
            ids; None: samples are float32 and used as they are.
        input_shape: of one sample, without the batch axis.
        cache_bytes: the size of the cache.

    Raises:
        DataError: see ``load_data``.
    """

    def __init__(
        self,
        data: DataSource,
        preparation: Preparation,
        input_shape: Sequence[int],
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        source = load_data(data)
        self._form = (preparation, tuple(input_shape))
        kept = KeptSamples(source, cache_bytes, lambda sample: prepare(sample, *self._form))
        self._whole = self._samples = replace(source, read=kept.read)
        self._left_out: dict[int, LeftOut] = {}
        self._sha256 = ""
        self._counted: Optional[int] = None

    def __repr__(self) -> str:
        size = "an unknown number of" if self.size is None else self.size
        return f"CalibrationDataset({self.name!r}, {size} samples of {self._form[1]})"

    def __len__(self) -> int:
        """The number of samples.

        Raises:
            TypeError: it is unknown until all samples have been read once.
        """
        return len(self._samples) if self.size is None else self.size

    @property
    def name(self) -> str:
        """Where the samples come from, for messages."""
        return self._samples.name

    @property
    def builtin(self) -> bool:
        """Whether the samples come with quantkit."""
        return self._samples.builtin

    @property
    def size(self) -> Optional[int]:
        """The number of samples, with those that are left out; None if it is unknown until all have been read once."""
        if self._samples.positions is not None:
            return len(self._samples.positions)
        return self._counted if self._samples.size is None else self._samples.size

    @property
    def samples(self) -> Samples:
        """The samples in their order, with preprocessed float32 arrays as their images."""
        return self._samples

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Those of the samples that were left out as far as they have been read; see ``skipping``."""
        everything = in_order(self._left_out)
        if self._samples.positions is None:
            return everything
        # Others are of larger subsets.
        places = frozenset(self._samples.positions)
        return tuple(each for each in everything if each.position in places)

    @property
    def sha256(self) -> str:
        """The hash of the preprocessed samples but those that are left out: see ``digests.joint_digest``."""
        if not self._sha256:
            for _ in self.batches(1):
                pass
        return self._sha256

    def subset(self, num_samples: int, at_most: bool = False) -> CalibrationDataset:
        """``num_samples`` of the samples: the first, or a fixed random choice of a set that may be sorted by class.

        A smaller subset is part of a larger one.

        With ``at_most``, all samples if there are fewer.

        Raises:
            UserError: ``num_samples`` is no whole number from 1 up.
            DataError: there are fewer, and ``at_most`` is not given; or none.
        """
        num_samples = whole_number("num_samples", num_samples, 1)
        chosen = copy(self)
        chosen._sha256, chosen._counted = "", None
        if at_most and self.size:
            num_samples = min(num_samples, self.size)
        # A random choice from a random choice would differ from a smaller choice from all.
        is_part = self.size is not None and num_samples <= self.size
        source = self._whole if is_part and self._whole.size is not None else self._samples
        is_open = at_most and source.size is None and source.positions is None
        chosen._samples = first(source, num_samples) if is_open else take(source, num_samples)
        return chosen

    def skipping(self, most: int) -> CalibrationDataset:
        """The same samples, of which up to ``most`` that cannot be read or used are left out, and are in no batch.

        Raises:
            UserError: ``most`` is no whole number from 0 up.
        """
        tolerant = copy(self)
        tolerant._whole, tolerant._samples = skipping(self._whole, most), skipping(self._samples, most)
        tolerant._left_out = {}
        return tolerant

    def batches(self, batch_size: int, classes: Optional[int] = None) -> Generator[Batch, None, None]:
        """The preprocessed samples in batches, float32 of shape (batch, channels, height, width).

        The last batch may be smaller. Labels must be below ``classes``, if that is given.

        Raises:
            DataError: a sample cannot be used, or all are left out.
        """
        digests, counted = [], 0
        for batch in batches(self._samples, *self._form, batch_size, classes=classes, left_out=self._left_out):
            counted += len(batch.data)
            if not self._sha256:
                digests.append(digests_of(batch.data))
            yield batch
        if not counted:
            raise none_left(self.name, self._left_out)
        self._sha256, self._counted = self._sha256 or joint_digest(np.concatenate(digests)), counted

    def stream(self, batch_size: int) -> BatchStream:
        """The preprocessed samples, to be read in batches of ``batch_size``."""
        return BatchStream(self._samples, *self._form, batch_size, left_out=self._left_out)

    def check_form(self, preparation: Preparation, input_shape: Sequence[int], name: str) -> None:
        """Check that the network ``name`` reads samples in this form.

        Raises:
            UserError: it reads another form.
        """
        if self._form != (preparation, tuple(input_shape)):
            raise UserError(
                f"the calibration dataset {self.name!r} was preprocessed for another network than {name!r}; make one "
                "with that network's preprocessing and input shape"
            )
