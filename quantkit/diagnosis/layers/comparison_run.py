"""Both networks compared over all samples, layer by layer and in their outputs."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np

from quantkit.data.aggregation import Partial, under
from quantkit.data.batches import Batch
from quantkit.diagnosis.layers.calibration import InputWatch
from quantkit.diagnosis.layers.walk import Comparison
from quantkit.evaluation.agreement import Agreement, AgreementSums
from quantkit.formats.mxnet.nnvm import sha256_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.models.layout import InputLayout
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import int8_network
from quantkit.tasks.agreement import TaskAgreement

_COMPARISON, _INPUT, _OUTPUTS, _EXACT, _ROUNDED = "comparison/", "input/", "outputs/", "exact/", "rounded/"


@dataclass(frozen=True, eq=False)
class Compared:
    """What a comparison has found: its sums, the networks' input, and the agreement of the outputs."""

    comparison: Comparison
    input: InputWatch
    agreement: Agreement


@dataclass(frozen=True, eq=False)
class ComparisonRun:
    """The ``Aggregation`` of an analysis.

    Attributes:
        reference: the FP32 network, fused.
        network: the INT8 network.
        shifts: by how much tensors are shifted there; see ``channel_shifts``.
        layout: of the networks' input.
        outputs: the names of the outputs.
        class_scores, steps: what the first of them is; see ``AgreementSums``.
        of_task: how the predictions of their task are compared; None where they have none.
    """

    reference: Graph
    network: QuantizedGraph
    shifts: Mapping[Tensor, np.ndarray]
    layout: InputLayout
    outputs: tuple[str, ...]
    class_scores: bool
    steps: int
    of_task: Optional[TaskAgreement]

    def key(self) -> str:
        """See ``Aggregation``."""
        graphs = sha256_of(self.reference), sha256_of(self.network.graph)
        shifts = [(str(tensor), values.tobytes().hex()) for tensor, values in self.shifts.items()]
        task = None if self.of_task is None else repr(self.of_task.task)
        facts = ("analysis", graphs, repr(self.network.plan), shifts, self.layout, self.class_scores, self.steps, task)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def partial(self, batches: Iterable[Batch]) -> Partial:
        """Run both networks batch by batch, operator by operator.

        Raises:
            DataError: the samples cannot be used.
        """
        comparison, seen, agreed = self._comparison(), InputWatch(self.layout), self._agreement()
        predicted: dict[str, list[np.ndarray]] = defaultdict(list)
        for batch in batches:
            seen.add(batch.data)
            exact, rounded = comparison.add(batch.data)
            agreed.add(exact, rounded)
            if self.of_task is not None:
                task: Any = self.of_task.task
                for prefix, outputs in ((_EXACT, exact), (_ROUNDED, rounded)):
                    for name, values in task.packed(task.decode(outputs)).items():
                        predicted[prefix + name].append(values)
        return {
            **_named(_COMPARISON, comparison.state()),
            **_named(_INPUT, seen.state()),
            **_named(_OUTPUTS, agreed.state()),
            **{name: np.concatenate(values) for name, values in predicted.items()},
        }

    def combine(self, partials: Iterable[Partial]) -> Compared:
        """The comparison over all samples."""
        comparison, seen, agreed = self._comparison(), InputWatch(self.layout), self._agreement()
        outputs: dict[str, list[np.ndarray]] = defaultdict(list)
        judged = self.of_task
        of_task = None if judged is None else TaskAgreement(judged.task, judged.input_size, judged.unordered)
        for part in partials:
            comparison.merge(under(_COMPARISON, part))
            seen.merge(under(_INPUT, part))
            for name, values in under(_OUTPUTS, part).items():
                outputs[name].append(values)
            if of_task is not None:
                pairs = (of_task.task.unpacked(under(prefix, part)) for prefix in (_EXACT, _ROUNDED))
                for wanted, other in zip(*pairs, strict=True):
                    of_task.compare(wanted, other)
        agreed.restore({name: np.concatenate(values) for name, values in outputs.items()})
        result = agreed.result()
        return Compared(comparison, seen, result if of_task is None else replace(result, scores=of_task.scores))

    def _comparison(self) -> Comparison:
        return Comparison(self.reference, int8_network(self.network), self.shifts)

    def _agreement(self) -> AgreementSums:
        return AgreementSums(self.outputs, self.class_scores, self.steps)


def _named(prefix: str, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {prefix + name: values for name, values in state.items()}
