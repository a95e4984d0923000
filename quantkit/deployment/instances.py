"""Instances: how a network is spread over the machine, and how requests become batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from quantkit.benchmark.placement.placement import Placement, place
from quantkit.deployment.runtime import DEFAULT_RUNTIME, Runtime
from quantkit.errors import UserError
from quantkit.host.topology import read_topology
from quantkit.kinds import of_kind, seconds, whole_number


@dataclass(frozen=True)
class Instances:
    """Processes that each run the network with some cores.

    Attributes:
        placement: ``core``, an instance on each core; ``node``, one on each memory node; a number of them, as large as
            possible; or another policy of ``quantkit benchmark --placement``, such as ``2x4:smt``.
        threads: the cores of each, where ``placement`` is a number; None: as many as possible.
        batch: the most samples that an instance computes at once.
        window: how long an idle instance waits for a full batch, in seconds.
        runtime: what each process is started with.
    """

    placement: Union[str, int] = "core"
    threads: Optional[int] = None
    batch: int = 8
    window: float = 0.0
    runtime: Runtime = DEFAULT_RUNTIME

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: one cannot be used.
        """
        object.__setattr__(self, "batch", whole_number("batch", self.batch, 1))
        object.__setattr__(self, "window", seconds("window", self.window))
        of_kind("runtime", self.runtime, Runtime, "such as Runtime(allocator='jemalloc')")
        if self.threads is not None:
            whole_number("threads", self.threads, 1)
            if not str(self.placement).isdigit():
                raise UserError(
                    f"threads are of a number of instances, and instances are {self.placement!r}; leave threads out"
                )

    @property
    def policy(self) -> str:
        """The placement with the cores of each, as ``quantkit benchmark`` names it."""
        return str(self.placement) if self.threads is None else f"{self.placement}x{self.threads}"

    def placements(self) -> tuple[Placement, ...]:
        """Where each lies on this machine.

        Raises:
            UserError: there is no such policy, or no room for them.
        """
        return place(self.policy, read_topology())
