"""Data-parallel training: one loop, run by this process or by several that share each batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional, Union

from quantkit.benchmark.placement.placement import Placement, place
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.samples import Samples
from quantkit.errors import TrainingError, UserError
from quantkit.files.folders import scratch_folder
from quantkit.host.topology import read_topology
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.model import Model
from quantkit.progress import Progress
from quantkit.training.checkpoint import Checkpoint, read_checkpoint
from quantkit.training.feed import readable_in_any_order
from quantkit.training.instances import train_on_instances
from quantkit.training.launch import KVStoreName, advise_kvstore, check_kvstore
from quantkit.training.loop import EpochCallback, Loop
from quantkit.training.machines import Machines
from quantkit.training.network_files import write_graph, write_network
from quantkit.training.team import Job, Simulated


@dataclass(frozen=True)
class DataParallel:
    """How a training is spread over processes; see ``finetune``.

    Attributes:
        instances: a placement of ``quantkit benchmark``, or a number of processes.
        machines: those that train together.
        kvstore: through what instances add up gradients.
        compress: send gradients as float16.
        workers: threads of each instance that prepare batches; None: see ``feed_workers``.

    Raises:
        UserError: instances cannot exchange gradients in this way.
        ExtraMissing: Horovod is not installed.
    """

    instances: Union[str, int, None]
    machines: Optional[Machines]
    kvstore: KVStoreName
    compress: bool
    workers: Optional[int]

    def __post_init__(self) -> None:
        """Refuse what no instances can do."""
        if self.alone and (self.compress or self.kvstore == "horovod"):
            raise UserError(
                "--kvstore and --compress (kvstore, compress) are for instances; give --instances (instances), too"
            )
        check_kvstore(self.kvstore, self.compress)

    @property
    def alone(self) -> bool:
        """Whether this process trains."""
        return self.instances is None and self.machines is None

    def training_samples(self, samples: Samples) -> Samples:
        """Samples as this process needs them: instances read, and hold, them themselves.

        Raises:
            UserError: instances cannot find them by their name.
            DataError: see ``readable_in_any_order``.
        """
        if self.alone:
            return readable_in_any_order(samples)
        _name_of(samples)
        return samples

    def validation_samples(
        self, model: Model, data: Optional[CalibrationData], skip_bad: int
    ) -> Optional[CalibrationDataset]:
        """Validation samples as this process needs them; None if there are none.

        Raises:
            UserError: instances cannot find them by their name, or see ``dataset``.
            DataError: see ``dataset``.
        """
        if data is None:
            return None
        if self.alone:
            return dataset(model, data, skip_bad)
        validation = dataset(model, data, skip_bad, cache_bytes=0)
        _name_of(validation.samples)
        return validation

    def check(self, loop: Loop) -> None:
        """Make sure that a training can be run in this way.

        Raises:
            UserError: instances cannot share a batch.
        """
        if not self.alone:
            self._placements(loop)

    def _placements(self, loop: Loop) -> Sequence[Placement]:
        placements = place("machine" if self.instances is None else str(self.instances), read_topology())
        loop.config.check_shared(self._number(placements))
        return placements

    def _number(self, placements: Sequence[Placement]) -> int:
        """Of all instances."""
        return len(placements) * (self.machines.number if self.machines else 1)

    def identity(self, loop: Loop) -> str:
        """The hash of what decides the training: that of the loop, and whether gradients are rounded."""
        return hashlib.sha256(f"{loop.identity} float16".encode()).hexdigest() if self.compress else loop.identity

    def run(self, loop: Loop, begun: Optional[Checkpoint], progress: Progress, on_epoch: EpochCallback) -> Checkpoint:
        """All epochs that are left; returns the last checkpoint.

        Args:
            loop: the training, with the identity that ``identity`` gives.
            begun: where the training goes on from; None: it begins.
            progress: wraps the steps of each epoch.
            on_epoch: is given each epoch.

        Raises:
            UserError: instances cannot share a batch.
            QuantkitError: see ``Loop.run`` and ``train_on_instances``.
        """
        if begun is not None and loop.is_done(begun):
            # Without processes: those of other machines may be done and gone.
            loop.check_best(begun)
            return begun
        if self.alone:
            return loop.run(begun, progress, on_epoch)
        placements = self._placements(loop)
        if self._number(placements) > 1:
            params = loop.network.graph.params
            advise_kvstore(self.kvstore, sum(params[name].nbytes for name in loop.network.learned))
        with scratch_folder() as folder:
            job = self._job(loop, begun, folder)
            path = Path(job.checkpoint)
            done = len(begun.epochs) if begun else 0
            train_on_instances(job, placements, self.machines, loop, done, progress, on_epoch)
            reached = read_checkpoint(path, loop.identity)
        if reached is None:
            raise TrainingError(f"the checkpoint {path} was removed; give the same command again, without --restart")
        return reached

    def _job(self, loop: Loop, begun: Optional[Checkpoint], folder: Path) -> Job:
        model, simulated = loop.feed.model, None
        if loop.teacher is not None:
            symbol, params = write_graph(loop.network.graph, folder, "simulated")
            learned = folder / "learned.json"
            learned.write_text(json.dumps(sorted(loop.network.learned)), encoding="utf-8")
            simulated = Simulated(str(symbol), str(params), str(learned), loop.distill)
        return Job(
            card=str(write_network(model, loop.feed.classes, folder, model.name, "", {})),
            train=_name_of(loop.feed.samples),
            validation=None if loop.validation is None else _name_of(loop.validation.samples),
            config=asdict(loop.config),
            workers=self.workers,
            skip_bad=(loop.feed.samples.skip_bad, 0 if loop.validation is None else loop.validation.samples.skip_bad),
            checkpoint=str(loop.checkpoint or folder / "checkpoint"),
            identity=loop.identity,
            anew=begun is None,
            kvstore=self.kvstore,
            compress=self.compress,
            simulated=simulated,
        )


def _name_of(samples: Samples) -> str:
    """The name by which instances find samples.

    Raises:
        UserError: they have none.
    """
    if not isinstance(samples.address, str) or samples.positions is not None:
        raise UserError(
            f"instances read the samples themselves, by name, and {samples.name} is not the whole of a folder or a "
            "file; give one, or no instances"
        )
    return samples.address
