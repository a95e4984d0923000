"""How to use a tuned deployment: in Python, in a shell, as a service, and in a cluster."""

from __future__ import annotations

import shlex
from math import ceil
from pathlib import Path
from typing import Optional

from quantkit.benchmark.placement.placement import Placement
from quantkit.deployment.deployment_file import DEPLOYMENT
from quantkit.deployment.instances import Instances
from quantkit.deployment.tuning.tuned import Finalist

# Memory that a service may take beyond what was measured.
_ROOM = 1.5
_GIBIBYTE = 1 << 30


def python_lines(bundle: Path, folder: Path) -> tuple[str, ...]:
    """A program that runs the deployment."""
    return (
        "import quantkit as qk",
        "",
        f"with qk.load({str(bundle.absolute())!r}, deployment={str(folder.absolute() / DEPLOYMENT)!r}) as predictor:",
        '    scores = predictor.predict(["image.jpg"])',
    )


def shell_lines(winner: Finalist) -> tuple[str, ...]:
    """What quantkit does for each instance, for programs that start them themselves; none without instances."""
    spread, engine = winner.contestant.spread, winner.contestant.engine
    if not isinstance(spread, Instances):
        return ()
    return tuple(_shell(spread.runtime.variables(engine, each), each) for each in spread.placements())


def _shell(variables: dict[str, str], placement: Placement) -> str:
    exported = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    memory = f" -m {_list(placement.nodes)}" if placement.nodes else ""
    bound = f"numactl -C {_list(placement.cpus)}{memory} " if placement.cpus else ""
    return f"env {exported} {bound}python your_program.py"


def systemd_lines(winner: Finalist, folder: Path) -> tuple[str, ...]:
    """A unit for a program that loads the deployment."""
    return (
        "[Unit]",
        f"Description=quantkit: {winner.contestant.bundle.manifest.name}",
        "",
        "[Service]",
        f"WorkingDirectory={folder.absolute().parent}",
        "ExecStart=/usr/bin/env python3 your_program.py",
        f"MemoryMax={_memory(winner)}G",
        "Restart=on-failure",
        "KillMode=control-group",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    )


def kubernetes_lines(winner: Finalist, cores: int) -> tuple[str, ...]:
    """The resources of a container, whole and equal, so that the static CPU manager gives it cores of its own."""
    memory = f"{_memory(winner)}Gi"
    return (
        "# The kubelet needs --cpu-manager-policy=static, and on several memory nodes",
        "# --topology-manager-policy=single-numa-node. A deployment holds for the cores that it was measured on:",
        "# tune it in such a container.",
        "resources:",
        f'  requests: {{cpu: "{cores}", memory: "{memory}"}}',
        f'  limits: {{cpu: "{cores}", memory: "{memory}"}}',
    )


def _memory(winner: Finalist) -> int:
    return max(1, ceil(_ROOM * winner.memory / _GIBIBYTE))


def _list(numbers: Optional[tuple[int, ...]]) -> str:
    return ",".join(map(str, numbers or ()))
