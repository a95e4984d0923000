"""Predictor: runs a bundle's network in a deployment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.classes import best_classes, check_class_scores
from quantkit.deployment.inputs import Images, InputReader
from quantkit.deployment.instances import Instances
from quantkit.deployment.monitoring import monitored
from quantkit.deployment.opening import opened_runner
from quantkit.deployment.outputs import OutputReader
from quantkit.deployment.runner import Outputs, RunnerStatus
from quantkit.deployment.states import States, checked_states
from quantkit.deployment.streams import Streams
from quantkit.deployment.task_reader import TaskReader
from quantkit.deployment.watching.monitor import Monitor, wanted_monitor
from quantkit.deployment.watching.watcher import MonitorStatus
from quantkit.errors import DataError, UserError
from quantkit.host.process import OwnProcess
from quantkit.host.threads import decoders_asked
from quantkit.kinds import of_kind, seconds, whole_number
from quantkit.tasks.detections import Detections
from quantkit.tasks.keypoints import Keypoints
from quantkit.tasks.task import Task, TaskName
from quantkit.units import counted


class Predictor:
    """A bundle's network, ready to run.

    Several threads may use it: they prepare their images in parallel and run the network in turns, each run with all of
    the engine's threads, or share its streams, or its instances, which are processes of their own. These end with
    ``close``, at the end of a ``with`` block, and with this process, however it ends.

    It does not survive a fork: predicting in a child of the process that loaded it raises ``ForkError``. Start
    processes with spawn, or fork first and load it in the child.

    Attributes:
        name: the network's name.
        input_shape: of one input without the batch: (channels, height, width) of images; (features,) of vectors;
            (steps, features) of sequences, or (steps,) of token ids.
        labels: the names of its classes in the order of the outputs; empty if unknown.
        preprocess: how images become its input; None if unknown: then give preprocessed arrays.
        manifest: the bundle's manifest.
        engine: the name of the engine that runs the network.
    """

    def __init__(
        self,
        bundle: Bundle,
        allow_random_weights: bool = False,
        engine: Optional[str] = None,
        instances: Union[Instances, Streams, None] = None,
        reduced_decoding: bool = False,
        monitor: Union[bool, Monitor] = False,
        workers: Optional[int] = None,
    ) -> None:
        """Load the bundle's network in an engine.

        Args:
            bundle: the bundle.
            allow_random_weights: whether to load a network with random weights, whose predictions are meaningless.
            engine: ``mxnet``; ``onnxruntime`` or ``openvino``, for bundles with an ONNX file; ``auto``: the engine
                that runs one image fastest here, measured for a second or two the first time and
                remembered under ``QUANTKIT_HOME``; None: MXNet if it is installed, else another installed engine.
            instances: processes that run the network on parts of the machine, or streams of this process that run it at
                the same time; None: it runs in this process, once at a time.
            reduced_decoding: whether large JPEG files are decoded at a half, a quarter or an eighth of their size, for
                all but tasks whose results are in pixels; see ``load``.
            monitor: whether to watch for drift, or how; see ``Monitor``.
            workers: threads that read files and scale large images while the network runs, 1 to 256; None: one for
                each hardware thread, 16 at most.

        Raises:
            UserError: the network has random weights and ``allow_random_weights`` is not given, the engine needs an
                ONNX file and the bundle holds none, there is no room for the instances, the engine has no streams,
                the bundle does not say what its network usually reads, as a monitor needs it, or ``workers`` is not
                from 1 to 256.
            BundleError: symbol and parameters are not a network.
            EngineError: this engine cannot run it on this processor.
            EngineMissing: the engine, or any engine, is not installed.
        """
        of_kind("bundle", bundle, Bundle, "or load its directory with quantkit.load()")
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
        self._states = bundle.states
        self._process = OwnProcess()
        number, wanted = None if workers is None else decoders_asked(workers, 1), wanted_monitor(monitor)
        self._runner, self._watcher = monitored(opened_runner(bundle, engine, instances), bundle, wanted)
        self.engine = self._runner.engine
        quantizer = self._runner.quantizer
        self._inputs = InputReader(self.input_shape, bundle.preparation, reduced_decoding, quantizer, number)
        self._read = OutputReader(self.name, self._inputs.noun, bundle.manifest.outputs[0].shape)
        parts = self._inputs, self._read, self.output_shapes
        self._tasks = TaskReader(*parts, self.labels, self.preprocess, bundle.box_corners)

    def __repr__(self) -> str:
        """What is loaded, in which engine."""
        shape = "x".join(map(str, self.input_shape))
        number = self._runner.instances, self._runner.streams
        spread = "".join(f", {counted(each, noun)}" for each, noun in zip(number, ("instance", "stream")) if each)
        return f"Predictor({self.name!r}, {self.manifest.kind}, input {shape}, engine {self.engine!r}{spread})"

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End instances and streams, if there are any: requests that are not answered yet fail, as do later ones.

        It also ends what a monitor watches and records.
        """
        self._runner.close()

    def predict(self, images: Images, timeout: Optional[float] = None) -> np.ndarray:
        """The network's (first) output for each image: float32 of shape (images, ...).

        Args:
            images: one image, or several: an array with one more axis (uint8 NHWC, or preprocessed float32
                NCHW), or an iterable of files and arrays, also of different sizes, which is read a few at a time.
            timeout: seconds after which nobody waits for the outputs any more; None: however long it takes.

        Raises:
            DataError: an image cannot be read, has another dtype or shape, or holds NaN or infinite values;
                or it is a photograph and the preprocessing is unknown. The message names the image.
            DeadlineExceeded: the time is up.
            EngineError: an output holds NaN or infinite values.
            InstanceError: instances were lost while they computed it, again and again.
            BundleError: the outputs do not match the bundle's manifest.
            ForkError: this process is a fork of the one that loaded the network.
            UserError: the predictor is closed.
        """
        batches = self._inputs.batches(images)
        return self._read.whole(self._outputs(batches, _deadline(timeout)))

    def stream(self, images: Images, timeout: Optional[float] = None) -> Iterator[np.ndarray]:
        """The network's (first) output for one image after the other.

        Args:
            images: as for ``predict``, of any number. They are read in batches of 16, some of them ahead; each
                instance has up to two such.
            timeout: seconds for all of them, from the first on.

        Raises:
            QuantkitError: as for ``predict``, when an image's turn comes.
        """
        for outputs in self._read.first(self._outputs(self._inputs.batches(images), _deadline(timeout))):
            yield from outputs

    async def predict_async(self, images: Images, timeout: Optional[float] = None) -> np.ndarray:
        """What ``predict`` gives, while the event loop goes on.

        All images are read first. Instances and streams compute nothing of what is cancelled before they have begun
        with it.

        Raises:
            QuantkitError: as for ``predict``.
        """
        deadline = _deadline(timeout)
        batches = await asyncio.to_thread(list, self.batches(images))
        self._check_process()
        return self._read.whole(await self._runner.outputs_async(batches, deadline))

    def batches(self, images: Images) -> Iterator[np.ndarray]:
        """What the network reads of images, in batches of up to 16; for ``outputs_async``.

        Raises:
            DataError: as for ``predict``.
        """
        return self._inputs.batches(images)

    async def outputs_async(self, batches: Sequence[np.ndarray], timeout: Optional[float] = None) -> list[np.ndarray]:
        """All outputs of the network for what ``batches`` gives, while the event loop goes on.

        Raises:
            DataError: it is something else.
            QuantkitError: as for ``predict``.
        """
        for batch in batches:
            if batch.shape[1:] != self.input_shape or batch.dtype not in self._inputs.dtypes:
                raise DataError(f"a batch is {batch.dtype} of shape {batch.shape}; give what batches() returns")
        self._check_process()
        runs = await self._runner.outputs_async(batches, _deadline(timeout))
        if not runs:
            return [np.empty((0, *shape), np.float32) for shape in self.output_shapes]
        return [self._read.finite(np.concatenate(parts), 0) for parts in zip(*runs)]

    def status(self) -> RunnerStatus:
        """What waits to be computed, and the sizes of the batches that were."""
        return self._runner.status()

    def monitor_status(self) -> Optional[MonitorStatus]:
        """What a monitor has shown until now; None without one."""
        return None if self._watcher is None else self._watcher.status()

    def step(self, data: Images, states: Optional[States] = None) -> tuple[np.ndarray, States]:
        """Run the next piece of each sequence, from the states that the piece before has left.

        Args:
            data: one sequence, or several, as for ``predict``; pieces are as long as the network's input.
            states: what the call before returned for the same sequences, in the same order: float32 of shape
                (sequences, layers, units), by the names of the states in the manifest; None: sequences begin.

        Returns:
            The network's (first) output for each sequence, float32 (sequences, ...), and the states for the next call.

        Raises:
            UserError: the network's states are not inputs, or it runs in instances or streams.
            DataError: there are no sequences, a state is missing or of another shape; or as for ``predict``.
            EngineError, BundleError, ForkError: as for ``predict``.
        """
        if not self._states:
            raise UserError(
                f"the states of the network {self.name!r} are no inputs; load it with --states inputs "
                '(load_model(..., states="inputs")) and quantize it again, or call predict()'
            )
        step = self._runner.step
        if step is None:
            raise UserError("instances and streams hand on no states; load the bundle without them")
        batches = list(self._inputs.batches(data))
        if not batches:
            raise DataError(f"there are no {self._inputs.noun}s; give at least one")
        given = checked_states(states, self._states, sum(map(len, batches)))
        runs, start = [], 0
        for batch in batches:
            own = {name: values[start : start + len(batch)] for name, values in given.items()}
            self._check_process()
            outputs = step(batch, own)
            runs.append([self._read.finite(output, start) for output in outputs])
            start += len(batch)
        whole = [np.concatenate(parts) for parts in zip(*runs)]
        return whole[0], {state.input: whole[state.output] for state in self._states}

    def classify(self, images: Images, top: int = 5) -> list[list[tuple[str, float]]]:
        """The ``top`` classes of each image with their scores, best first.

        A class is named by its label, or by its index if labels are unknown. The score is the softmax of
        the network's outputs over all classes, from 0 to 1, or the output itself if the network ends
        in a softmax or sigmoid. It ranks the classes of one image; it is not a calibrated probability.

        Raises:
            UserError: ``top`` is not a whole number from 1 up, or the network does not put out class scores, as the
                bundle's manifest says.
            DataError: as for ``predict``.
            EngineError: as for ``predict``.
        """
        return list(self.classify_stream(images, top))

    def classify_stream(self, images: Images, top: int = 5) -> Iterator[list[tuple[str, float]]]:
        """The ``top`` classes of one image after the other, as ``classify`` gives them; images as for ``stream``.

        Raises:
            QuantkitError: as for ``classify``, when an image's turn comes.
        """
        top = whole_number("top", top, 1, 5)
        check_class_scores(self.manifest, self._inputs.noun)
        are_scores = self.manifest.outputs[0].scores is not None
        for outputs in self._read.first(self._outputs(self._inputs.batches(images))):
            yield from best_classes(outputs, are_scores, self.labels, top)

    def detect(self, images: Images, max_overlap: Optional[float] = None) -> list[Detections]:
        """The objects in each image, by descending score, with their boxes in pixels of the image.

        Keep those whose score is high enough for your purpose, such as 0.5; a label is an index of ``labels``.

        Args:
            images: as for ``predict``; boxes in an array that is preprocessed already are those of the network's input.
            max_overlap: the largest overlap (intersection over union, 0 to 1) of two boxes of a class, for a network
                that leaves their suppression to its caller; None: 0.45, as in GluonCV's SSD.

        Raises:
            UserError: the outputs of the network are not detections, or ``max_overlap`` is no overlap, or is given for
                a network that suppresses overlaps itself.
            DataError: as for ``predict``.
            EngineError: an output that is read holds NaN or infinite values.
            BundleError: the outputs do not match the bundle's manifest.
            ForkError: this process is a fork of the one that loaded the network.
        """
        return list(self.task_stream("detection", images, max_overlap))

    def segment(self, images: Images) -> list[np.ndarray]:
        """The class of each pixel of each image: int64 of shape (height, width), -1 where the network does not see it.

        Args:
            images: as for ``predict``; the map of an array that is preprocessed already is that of the network's input.

        Raises:
            UserError: the first output of the network is not a map of class scores.
            DataError, EngineError, BundleError, ForkError: as for ``detect``.
        """
        return list(self.task_stream("segmentation", images))

    def pose(self, images: Images) -> list[Keypoints]:
        """The joints of the person in each image, in pixels of the image, with the largest value of each one's heatmap.

        Args:
            images: as for ``predict``, each of one person.

        Raises:
            UserError: the first output of the network is not a set of heatmaps.
            DataError, EngineError, BundleError, ForkError: as for ``detect``.
        """
        return list(self.task_stream("pose", images))

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of the network's outputs for one sample."""
        return tuple(output.shape for output in self.manifest.outputs)

    def task(self, name: TaskName, max_overlap: Optional[float] = None) -> Task[Any, Any, Any]:
        """What reads and draws the predictions of a task.

        Raises:
            UserError: the outputs are of another task, or see ``detect``.
        """
        return self._tasks.task(name, max_overlap)

    def task_stream(self, name: TaskName, images: Images, max_overlap: Optional[float] = None) -> Iterator[Any]:
        """What ``detect``, ``segment`` or ``pose`` gives, for one image after the other; images as for ``stream``.

        Raises:
            QuantkitError: as for these, when an image's turn comes.
        """
        return self._tasks.stream(name, images, self._outputs, max_overlap)

    def _outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        self._check_process()
        for outputs in self._runner.outputs(batches, deadline):
            yield outputs
            # The caller may have forked meanwhile.
            self._check_process()

    def _check_process(self) -> None:
        self._process.check(f"the Predictor of {self.name!r}")


def _deadline(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else time.monotonic() + seconds("timeout", timeout)
