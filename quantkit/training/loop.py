"""The epochs of a training, one after the other."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Optional

import numpy as np

from quantkit.data.dataset import CalibrationDataset
from quantkit.data.left_out import in_order
from quantkit.errors import DataError, TrainingError, UserError
from quantkit.progress import Progress
from quantkit.training.checkpoint import Checkpoint, check_alike, write_checkpoint
from quantkit.training.communication import Communication, all_have
from quantkit.training.config import TrainingConfig
from quantkit.training.epoch import Epoch
from quantkit.training.feed import Feed, TrainingBatch, check_batch
from quantkit.training.network import LossName, TrainedNetwork, parameters_digest
from quantkit.training.teacher import Teacher
from quantkit.training.trainable import Trainable
from quantkit.training.unused import Unused, unused_by_all
from quantkit.training.validation import Validated, validated

EpochCallback = Callable[[Epoch], object]
"""Is given each epoch when it is done."""


def ignore_epoch(epoch: Epoch) -> None:
    """Tell nobody."""


@dataclass(frozen=True, eq=False)
class Loop:
    """A training, as one instance runs it.

    Attributes:
        network: what is trained.
        feed: the samples that it learns from.
        validation: those that each epoch is judged on; None: it is not.
        communication: the instances.
        checkpoint: where the state goes after each epoch; None: nowhere.
        identity: the hash of what decides the training.
        teacher: the network whose classes validation compares with; None: it compares with labels.
        distill: learn the teacher's scores; else the labels.
        heartbeat: is called now and then while no step is made.

    Raises:
        DataError: the samples are fewer than a batch.
        UserError: validation samples are missing, or instances cannot share a batch.
    """

    network: Trainable
    feed: Feed
    validation: Optional[CalibrationDataset]
    communication: Communication
    checkpoint: Optional[Path]
    identity: str
    teacher: Optional[Teacher] = None
    distill: bool = False
    heartbeat: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        check_batch(self.feed.samples, self.config.batch_size)
        if self.config.patience is not None and self.validation is None:
            raise UserError(
                "stopping early needs validation samples; give some (--val, validation_data), or no patience"
            )
        self.config.check_shared(self.communication.instances)

    @property
    def config(self) -> TrainingConfig:
        """How the network is trained."""
        return self.feed.config

    @property
    def _unused(self) -> Unused:
        """The samples that this instance has left out as far as it has read them."""
        return Unused(in_order(self.feed.left_out), self.validation.left_out if self.validation is not None else ())

    @property
    def _scores_of(self) -> Optional[Teacher]:
        """The network whose scores are learned."""
        return self.teacher if self.distill else None

    def run(self, begun: Optional[Checkpoint], progress: Progress, on_epoch: EpochCallback) -> Checkpoint:
        """All epochs that are left.

        Args:
            begun: where the training goes on from; None: it begins.
            progress: wraps the steps of each epoch.
            on_epoch: is given each epoch.

        Raises:
            TrainingError: the loss is no longer a number.
            UserError: the checkpoint does not fit the network.
            DataError: samples cannot be used.
            QuantkitError: the checkpoint cannot be written.
        """
        if self.communication.instances > 1:
            self._compare(len(begun.epochs) if begun else 0)
        if begun is None:
            self._read_validation()
        elif self.communication.instances == 1:
            # Of several, each may leave out as many.
            self.feed.left_out.update({each.position: each for each in begun.unused.training})
        reached, done = begun, len(begun.epochs) if begun else 0
        with closing(self.feed.epochs(done + 1, self.config.epochs)) as batches:
            trained = self._trained(begun)
            while reached is None or not self.is_done(reached):
                number = len(reached.epochs) + 1 if reached else 1
                reached = self._after(*self._epoch(trained, number, batches, progress), trained, reached)
                if self.checkpoint is not None:
                    write_checkpoint(self.checkpoint, reached)
                on_epoch(reached.epochs[-1])
        return reached

    def _trained(self, begun: Optional[Checkpoint]) -> TrainedNetwork:
        """The network in the engine, as it begins or goes on."""
        learned: LossName = "targets" if self._scores_of is None else "scores"
        trained = TrainedNetwork(self.network, self.config, self.feed.steps, self.communication, learned)
        if begun is None:
            return trained
        self.check_best(begun)
        try:
            trained.restore(begun.state)
        except (LookupError, ValueError) as error:
            raise self._unfit(error) from error
        if self.communication.instances > 1 and not all_have(self.communication, parameters_digest(trained.params())):
            raise DataError(
                "the instances do not go on from the same checkpoint; copy one to all machines, or begin anew with "
                "--restart (restart=True)"
            )
        return trained

    def check_best(self, begun: Checkpoint) -> None:
        """Make sure that the best network of a checkpoint is one of this training.

        Raises:
            UserError: it is not.
        """
        try:
            check_alike(begun.best, self.network.graph.params)
        except ValueError as error:
            raise self._unfit(error) from error

    def _unfit(self, error: Exception) -> UserError:
        return UserError(
            f"cannot go on from {self.checkpoint or 'the checkpoint'}: {error}; begin anew with --restart "
            "(restart=True)"
        )

    def _read_validation(self) -> None:
        """Read the validation samples once, so that what is wrong with them is told before an epoch."""
        if self.validation is not None:
            for _ in self.validation.batches(self._own_batch, None if self.teacher else self.feed.classes):
                self.heartbeat()

    @property
    def _own_batch(self) -> int:
        """This instance's part of a batch."""
        return self.config.batch_size // self.communication.instances

    def _compare(self, done: int) -> None:
        """Make sure that all instances begin alike."""
        if not all_have(self.communication, bytes.fromhex(self.identity)):
            raise DataError(
                f"the network, its options or samples such as those of {self.feed.samples.name} are not the same on "
                "all instances; give all the same files, and the same options"
            )
        if not all_have(self.communication, hashlib.sha256(str(done).encode()).digest()):
            raise DataError(
                f"the instances do not go on after the same epoch, here after {done}; copy the newest checkpoint to "
                "all machines, or begin anew with --restart (restart=True)"
            )

    def is_done(self, reached: Checkpoint) -> bool:
        """Whether no epoch is left: the last one has been trained, or too many without a better result."""
        patience, done = self.config.patience, len(reached.epochs)
        return done >= self.config.epochs or (patience is not None and done - reached.best_epoch >= patience)

    def _epoch(
        self, trained: TrainedNetwork, number: int, batches: Iterator[TrainingBatch], progress: Progress
    ) -> tuple[Epoch, Mapping[str, np.ndarray]]:
        """An epoch, and the parameters after it."""
        config, steps = self.config, self.feed.steps
        # The others wait for the one that writes the checkpoint.
        self.communication.barrier()
        begun = perf_counter()
        summed, waited = 0.0, 0.0
        title = f"epoch {number} of {config.epochs}"
        trained.begin_epoch(number)
        for step in progress(range(1, steps + 1), steps, title):
            asked = perf_counter()
            batch = next(batches)
            waited += perf_counter() - asked
            targets = batch.targets if self._scores_of is None else self._scores_of.scores(batch.data)
            loss = trained.step(batch.data, targets)
            if not math.isfinite(loss):
                raise self._diverges(f"the loss is {loss} at step {step}", number, trained.rate)
            summed += loss
        params: Mapping[str, np.ndarray] = trained.params()
        # A step returns before the engine has ended it; reading the parameters waits for the last one.
        seconds = perf_counter() - begun
        if not all(np.isfinite(value).all() for value in params.values()):
            raise self._diverges("parameters are no longer numbers at the end", number, trained.rate)
        params = trained.share_statistics(params)
        if self.communication.instances > 1 and not all_have(self.communication, parameters_digest(params)):
            raise TrainingError(
                f"the instances have different parameters after epoch {number}: their memory or what they exchanged "
                "was damaged; give the same command, without --restart, which goes on from the last checkpoint"
            )
        of_all = (
            self.communication.all_reduce(np.array([summed, seconds, waited], np.float32))
            / self.communication.instances
        )
        loss, seconds, waited = (float(value) for value in of_all)
        judged = self._validated(params)
        if judged is not None and not math.isfinite(judged.loss):
            raise self._diverges(f"the loss on validation samples is {judged.loss} at the end", number, trained.rate)
        return Epoch(number, loss / steps, trained.rate, seconds, steps * config.batch_size, waited, judged), params

    def _diverges(self, what: str, number: int, rate: float) -> TrainingError:
        compress = ", or leave --compress (compress) out" if self.communication.compress else ""
        # With other options it is another training, which does not go on from what this one has written.
        anew = ", with --restart (restart=True) if there is a checkpoint" if number > 1 else ""
        return TrainingError(
            f"{what} of epoch {number}, at a learning rate of {rate:.3g}: the training diverges; give a smaller "
            f"--learning-rate (learning_rate) or a longer --warmup-epochs (warmup_epochs){compress}{anew}, and make "
            "sure that the samples are preprocessed as the network expects"
        )

    def _validated(self, params: Mapping[str, np.ndarray]) -> Optional[Validated]:
        if self.validation is None:
            return None
        own = validated(
            self.network.graph,
            params,
            self.validation,
            self._own_batch,
            self.feed.classes,
            self.teacher,
            self.heartbeat,
        )
        if self.communication.instances == 1:
            # Exactly: sums of instances are float32.
            return own
        found = self.communication.all_reduce(np.array([own.samples, own.correct, own.loss * own.samples], np.float32))
        return Validated(int(found[0]), int(found[1]), float(found[2] / found[0]))

    def _after(
        self,
        epoch: Epoch,
        params: Mapping[str, np.ndarray],
        trained: TrainedNetwork,
        before: Optional[Checkpoint],
    ) -> Checkpoint:
        """The checkpoint after an epoch."""
        epochs = (*(before.epochs if before else ()), epoch)
        state = trained.state(params) if self.checkpoint is not None else {}
        unused = unused_by_all(self.communication, before.unused if before else Unused(), self._unused)
        if before is None or epoch.better_than(before.epochs[before.best_epoch - 1]):
            # Of several instances, those that write checkpoints keep the best network.
            kept = self.checkpoint is not None or self.communication.instances == 1
            return Checkpoint(self.identity, epochs, state, params if kept else {}, epoch.number, unused)
        return replace(before, epochs=epochs, state=state, unused=unused)
