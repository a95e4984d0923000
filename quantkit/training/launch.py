"""What the processes of a training are started with, so that they find each other."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Optional, get_args

from quantkit.deployment.child_messages import LOADING_PATIENCE
from quantkit.errors import UserError
from quantkit.extras import require
from quantkit.training.machines import Machines, MeetingPoint, interface_of, on_this_machine
from quantkit.units import megabytes

KVStoreName = Literal["dist_sync", "horovod"]
"""Through what instances add up gradients: MXNet's parameter server, or Horovod."""

# Bytes of a step, between two sizes that were measured: two instances make a step of ResNet-50 (102 MB) no faster
# through Horovod, but one of VGG-16 (553 MB) in three quarters of the time.
_LARGE = 200_000_000


class Server(NamedTuple):
    """A process beside the instances: what it is called, its module, its settings and its environment."""

    noun: str
    module: str
    settings: Mapping[str, Any]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Launch(ABC):
    """How a training starts on one of its machines.

    Attributes:
        point: where all meet.
        instances: how many each machine runs.
        machines: how many there are.
        own: the number of this one.
    """

    point: MeetingPoint
    instances: int
    machines: int
    own: int

    @abstractmethod
    def servers(self) -> Sequence[Server]:
        """The processes beside the instances that this machine runs."""

    @abstractmethod
    def variables(self, place: int) -> Mapping[str, str]:
        """The environment of an instance of this machine, numbered from 0."""


class _ParameterServer(Launch):
    """MXNet's: a scheduler on the first machine, and a server on each."""

    def servers(self) -> Sequence[Server]:
        """See ``Launch``."""
        roles = ("server",) if self.own else ("scheduler", "server")
        return [Server(f"the {role} of the training", "parameter_server", {}, self._role(role)) for role in roles]

    def variables(self, place: int) -> Mapping[str, str]:
        """See ``Launch``."""
        return self._role("worker")

    def _role(self, role: str) -> Mapping[str, str]:
        return {
            "DMLC_ROLE": role,
            "DMLC_PS_ROOT_URI": self.point.host,
            "DMLC_PS_ROOT_PORT": str(self.point.port),
            "DMLC_NODE_HOST": self.point.own,
            "DMLC_NUM_SERVER": str(self.machines),
            "DMLC_NUM_WORKER": str(self.machines * self.instances),
        }


class _Horovod(Launch):
    """Horovod's, through Gloo: a rendezvous on the first machine, where instances leave their addresses."""

    def servers(self) -> Sequence[Server]:
        """See ``Launch``."""
        if self.own:
            return ()
        settings = {"host": self.point.host, "port": self.point.port}
        return [Server("the rendezvous of the training", "horovod_rendezvous", settings, {})]

    def variables(self, place: int) -> Mapping[str, str]:
        """See ``Launch``."""
        return {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": self.point.host,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.point.port),
            "HOROVOD_GLOO_IFACE": interface_of(self.point.own),
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(int(LOADING_PATIENCE)),
            # Who starts the instances watches them.
            "HOROVOD_STALL_CHECK_DISABLE": "1",
            "HOROVOD_HOSTNAME": f"{self.point.own}-{self.own}",
            "HOROVOD_RANK": str(self.own * self.instances + place),
            "HOROVOD_SIZE": str(self.machines * self.instances),
            "HOROVOD_LOCAL_RANK": str(place),
            "HOROVOD_LOCAL_SIZE": str(self.instances),
            "HOROVOD_CROSS_RANK": str(self.own),
            "HOROVOD_CROSS_SIZE": str(self.machines),
        }


class _Alone(Launch):
    """One instance, which has nobody to find."""

    def servers(self) -> Sequence[Server]:
        """See ``Launch``."""
        return ()

    def variables(self, place: int) -> Mapping[str, str]:
        """See ``Launch``."""
        return {}


_LAUNCHES: Mapping[KVStoreName, type[Launch]] = {"dist_sync": _ParameterServer, "horovod": _Horovod}


def launch(kvstore: KVStoreName, instances: int, machines: Optional[Machines]) -> Launch:
    """How ``instances`` of this machine, and as many of each other one, start.

    Raises:
        UserError: there is no way to the first machine.
    """
    number, own = (machines.number, machines.own) if machines else (1, 0)
    kind = _LAUNCHES[kvstore] if number * instances > 1 else _Alone
    return kind(machines.meeting_point() if machines else on_this_machine(), instances, number, own)


class SlowExchangeWarning(UserWarning):
    """Instances exchange so much that another kvstore is likely to be faster."""


def advise_kvstore(kvstore: KVStoreName, exchanged: int) -> None:
    """Warn where ``exchanged`` bytes of gradients in each step are better sent through Horovod."""
    if kvstore == "dist_sync" and exchanged > _LARGE:
        message = (
            f"instances exchange {megabytes(exchanged)} of gradients in each step; above {megabytes(_LARGE)} they are "
            "likely to wait less through --kvstore horovod (kvstore='horovod')"
        )
        warnings.warn(message, SlowExchangeWarning, stacklevel=2)


def check_kvstore(kvstore: str, compress: bool) -> None:
    """Make sure that instances can exchange gradients in this way.

    Raises:
        UserError: there is no such way.
        ExtraMissing: its package is not installed.
    """
    if kvstore not in get_args(KVStoreName):
        raise UserError(f"kvstore is {kvstore!r}; choose one of {', '.join(get_args(KVStoreName))}")
    if compress and kvstore != "horovod":
        raise UserError(
            "gradients are compressed through Horovod alone: MXNet's parameter server does so only where it applies "
            "them itself; add --kvstore horovod (kvstore='horovod'), or leave --compress (compress) out"
        )
    if kvstore == "horovod":
        require("horovod", "horovod", "trainings through Horovod", "take --kvstore dist_sync")
