"""A network in MXNet while it is trained: a Gluon block, its trainer, and their values in and out."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from quantkit.backends.mxnet.calls import engine_calls, stock_fusion_off
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.ir.operators import auxiliary_inputs, flag
from quantkit.training.adamax import registered_adamax
from quantkit.training.communication import Communication
from quantkit.training.config import TrainingConfig
from quantkit.training.schedule import rate_schedule
from quantkit.training.trainable import Trainable

LossName = Literal["targets", "scores"]

# Names in what ``state`` gives.
_PARAM, _STATE, _COUNTS = "param", "state", "counts"


class TrainedNetwork:
    """A network that learns, one step after the other.

    Its parameters and the state of its optimizer are all that a step depends on, besides the batch.
    """

    def __init__(
        self,
        network: Trainable,
        config: TrainingConfig,
        steps_per_epoch: int,
        communication: Communication,
        loss: LossName = "targets",
    ) -> None:
        """Load the network into MXNet.

        Args:
            network: what is trained.
            config: how.
            steps_per_epoch: the number of batches in an epoch.
            communication: the instances.
            loss: what is learned: ``targets``, by their cross-entropy with the softmax of the scores, or the ``scores``
                of another network, by half the mean square of the difference.

        Raises:
            EngineError: the engine does not accept it.
        """
        mxnet = load_mxnet()
        self._mxnet, self._communication = mxnet, communication
        self._batch_size, self._seed = config.batch_size, config.seed
        with engine_calls("load the network for training"), stock_fusion_off():
            inputs = [mxnet.sym.var(name, dtype="float32") for name in network.graph.inputs]
            with warnings.catch_warnings():
                # Of parameters that do not follow from the input's type; all are float32.
                warnings.filterwarnings("ignore", "Cannot decide type")
                self._block = mxnet.gluon.SymbolBlock(symbol_of(network.graph), inputs)
            self._params = {name: self._block.params[name] for name in network.graph.params}
            for name, param in self._params.items():
                value = network.graph.params[name]
                param.shape = value.shape
                param.grad_req = "write" if name in network.learned else "null"
                param.wd_mult = 1.0 if name in network.decayed else 0.0
                param.initialize(mxnet.init.Zero(), ctx=mxnet.cpu())
                param.set_data(mxnet.nd.array(value, dtype=value.dtype))
            self._block.hybridize(static_alloc=True, static_shape=True)
            losses = mxnet.gluon.loss
            self._loss = losses.L2Loss() if loss == "scores" else losses.SoftmaxCELoss(sparse_label=False)
            learned = {name: self._params[name] for name in network.learned}
            options = {**_options(config, loss), "lr_scheduler": rate_schedule(config, steps_per_epoch)}
            optimizer = registered_adamax() if config.optimizer == "adamax" else config.optimizer
            self._trainer = communication.trainer(learned, optimizer, options)
        moving = [node for node in network.graph.nodes if not flag(node, "use_global_stats")]
        self._statistics = sorted({tensor.node for node in moving for tensor in auxiliary_inputs(node)})

    @property
    def rate(self) -> float:
        """The learning rate of the last step."""
        return float(self._trainer.learning_rate)

    def begin_epoch(self, number: int) -> None:
        """Have what is drawn at random in the network, such as the masks of Dropout, depend on the epoch alone."""
        place = (self._seed, number, self._communication.rank)
        with engine_calls("seed the engine"):
            self._mxnet.random.seed(int(np.random.SeedSequence(place).generate_state(1)[0] >> 1))

    def step(self, data: np.ndarray, targets: np.ndarray) -> float:
        """Learn from a batch; returns the mean loss before the step: a cross-entropy in nats, or a mean square.

        Args:
            data: this instance's samples, float32 of shape (samples, ...).
            targets: float32 of shape (samples, classes).

        Raises:
            EngineError: the engine fails.
        """
        mxnet = self._mxnet
        with engine_calls("train the network"), stock_fusion_off():
            x, y = mxnet.nd.array(data), mxnet.nd.array(targets)
            with mxnet.autograd.record():
                loss = self._loss(self._block(x).reshape((len(data), -1)), y)
            loss.backward()
            self._trainer.step(self._batch_size)
            return float(loss.mean().asscalar())

    def wait(self) -> None:
        """Wait for the end of the last step, before which ``step`` returns."""
        with engine_calls("train the network"):
            self._mxnet.nd.waitall()

    def share_statistics(self, params: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Give the moving means and variances of all instances their mean over the instances.

        Args:
            params: the parameters as they are; those that they have become are returned.
        """
        if self._communication.instances == 1 or not self._statistics:
            return params
        own = [params[name] for name in self._statistics]
        # One exchange of all takes about as long as one of each.
        total = self._communication.all_reduce(np.concatenate([each.ravel() for each in own]))
        means = np.split(total / self._communication.instances, np.cumsum([each.size for each in own])[:-1])
        for name, mean, each in zip(self._statistics, means, own):
            with engine_calls("set statistics"):
                self._params[name].set_data(self._mxnet.nd.array(mean.reshape(each.shape)))
        return {**params, **self._read(self._statistics)}

    def params(self) -> dict[str, np.ndarray]:
        """All parameters by name, copied."""
        return self._read(self._params)

    def _read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        with engine_calls("read the parameters"):
            return {name: self._params[name].data().asnumpy() for name in names}

    def state(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Parameters, as ``params`` gave them, and the optimizer's state, by names; see ``restore``."""
        arrays = {f"{_PARAM}/{name}": value for name, value in params.items()}
        (updater,), optimizer = self._trainer._updaters, self._trainer._optimizer
        for index, state in updater.states.items():
            for place, value in enumerate(_flat(state)):
                arrays[f"{_STATE}/{index}/{place}"] = value.asnumpy()
        counts = optimizer._index_update_count
        arrays[_COUNTS] = np.array([counts.get(index, 0) for index in range(len(self._trainer._params))])
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what ``state`` gave, exactly.

        Raises:
            KeyError: an array is missing.
            ValueError: one has another shape.
        """
        params = {name: _shaped(arrays, f"{_PARAM}/{name}", param.shape) for name, param in self._params.items()}
        counts = [int(count) for count in _shaped(arrays, _COUNTS, (len(self._trainer._params),))]
        nd, (updater,), optimizer = self._mxnet.nd, self._trainer._updaters, self._trainer._optimizer
        for name, value in params.items():
            with engine_calls("restore the parameters"):
                self._params[name].set_data(nd.array(value, dtype=value.dtype))
        for index, param in enumerate(self._trainer._params):
            with engine_calls("restore the optimizer"):
                state = optimizer.create_state_multi_precision(index, param.data())
            for place, array in enumerate(_flat(state)):
                value = _shaped(arrays, f"{_STATE}/{index}/{place}", array.shape)
                with engine_calls("restore the optimizer"):
                    array[:] = nd.array(value, dtype=array.dtype)
            updater.states[index], updater.states_synced[index] = state, True
            optimizer._index_update_count[index] = counts[index]


def parameters_digest(params: Mapping[str, np.ndarray]) -> bytes:
    """The SHA-256 of parameters."""
    digest = hashlib.sha256()
    for _, value in sorted(params.items()):
        digest.update(value.tobytes())
    return digest.digest()


def _options(config: TrainingConfig, loss: LossName) -> dict[str, Any]:
    options: dict[str, Any] = {"learning_rate": config.peak_rate, "wd": config.weight_decay}
    if config.optimizer == "sgd":
        return {**options, "momentum": config.momentum}
    if config.optimizer == "adam" and loss == "scores":
        # Of networks that are nearly right: gradients are far below the usual 1e-8.
        return {**options, "epsilon": 1e-12}
    return options


def _flat(state: Any) -> list[Any]:
    """The arrays of an optimizer's state: none, one, or a tuple of them."""
    if state is None:
        return []
    return [each for part in state for each in _flat(part)] if isinstance(state, (tuple, list)) else [state]


def _shaped(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    value = arrays[name]
    if value.shape != tuple(shape):
        raise ValueError(f"{name} has shape {value.shape} where {tuple(shape)} is needed")
    return value
