"""Connecting to a cluster: one that runs already, or some workers on this machine."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cluster import local_worker
from quantkit.errors import ClusterError, UserError
from quantkit.extras import using
from quantkit.files.text import MEBIBYTE, parse_json, read_bytes
from quantkit.units import counted

if TYPE_CHECKING:
    from distributed import Client

_LOCAL = "local:"
_MOST_LOCAL = 1024
_FORMS = "give local:N for N workers on this machine, a scheduler's address (tcp://HOST:8786), or its file (.json)"

# Characters of a message of others.
_SHOWN = 200

# What nodes of Dask do again and again for its pages and its log: some percent of a core for each of them.
_SELDOM: Mapping[str, Any] = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "500ms",
}

# Seconds that a scheduler may take to answer.
_PATIENCE = 20


@dataclass(frozen=True)
class TlsFiles:
    """The certificates that nodes of a cluster know each other by: of the authority, and the own one with its key."""

    authority: Path
    certificate: Path
    key: Path


@contextmanager
def connected(cluster: str, tls: Optional[TlsFiles] = None, dashboard: bool = False) -> Iterator[Client]:
    """A client of a cluster, until the end of the context; workers that were started for it end with it.

    Args:
        cluster: ``local:N``, a scheduler's address, or the path of the file that a scheduler writes (.json).
        tls: certificates; the cluster must have been started with such of the same authority.
        dashboard: whether ``local:N`` serves Dask's page of what goes on, on this machine alone.

    Raises:
        ExtraMissing: Dask is not installed.
        UserError: ``cluster`` names none, or a file is missing.
        ClusterError: it does not answer.
    """
    with using("cluster", "clusters"):
        import distributed
    if cluster.startswith(_LOCAL):
        with _local(_number(cluster), dashboard) as client:
            yield client
        return
    address = _address(cluster)
    if address.startswith("tls://") and tls is None:
        raise UserError(f"the cluster at {address} talks over TLS; give the certificates (--tls CA CERT KEY)")
    security = None if tls is None else _security(tls)
    try:
        client = distributed.Client(address, security=security, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:_SHOWN]
        raise ClusterError(
            f"no scheduler answers at {address} ({reason}); start one with dask scheduler, or give another address; "
            "where it talks over TLS, give one that begins with tls:// and the certificates that it was started with"
        ) from error
    with client:
        yield client


@contextmanager
def _local(workers: int, dashboard: bool) -> Iterator[Client]:
    """Workers on this machine that take orders from this user's processes alone, by certificates made for them."""
    import dask
    import distributed
    from distributed.security import Security

    routes: dict[str, Any] = {f"distributed.{node}.http.routes": [] for node in ("scheduler", "worker")}
    with ExitStack() as stack:
        stack.enter_context(_importable())
        try:
            # Nodes keep what they find when they are made; other clusters of this process have pages of their own.
            with dask.config.set({} if dashboard else {**routes, **_SELDOM}):
                cluster = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        protocol="tls://",
                        security=Security.temporary(),
                        # Any free port, on which nothing is served without the routes.
                        dashboard_address="127.0.0.1:0",
                        scheduler_kwargs={"dashboard": dashboard},
                        silence_logs=logging.CRITICAL,
                        preload=[local_worker.__name__],
                    )
                )
                client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"{counted(workers, 'worker')} cannot be started here ({error}); give fewer") from error
        yield client


@contextmanager
def _importable() -> Iterator[None]:
    """Let processes that Dask starts find quantkit where this one has it from, be it below the current folder.

    They search the path of this process, of which the command line has taken the current folder.
    """
    root = str(Path(__file__).parents[2])
    if root in sys.path:
        yield
        return
    sys.path.append(root)
    try:
        yield
    finally:
        sys.path.remove(root)


def _number(cluster: str) -> int:
    digits = cluster.removeprefix(_LOCAL)
    if not re.fullmatch(r"\d{1,4}", digits) or not 1 <= int(digits) <= _MOST_LOCAL:
        raise UserError(f"{cluster!r} names no number of workers from 1 to {_MOST_LOCAL}; {_FORMS}")
    return int(digits)


def _address(cluster: str) -> str:
    """The address that a cluster's name is, or its file holds."""
    address = _in_file(Path(cluster)) if cluster.endswith(".json") else cluster
    if re.fullmatch(r"((tcp|tls)://)?[\w.\-\[\]:]+:\d{1,5}", address) is None:
        raise UserError(f"{address[:_SHOWN]!r} is no cluster; {_FORMS}")
    return address


def _in_file(path: Path) -> str:
    """The address in the file that a scheduler has written."""
    try:
        address = parse_json(read_bytes(path, MEBIBYTE))["address"]
    except FileNotFoundError as error:
        raise UserError(f"there is no scheduler file {path}; {_FORMS}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no file of a scheduler ({type(error).__name__}: {error}); {_FORMS}") from error
    return str(address)


def _security(tls: TlsFiles) -> Any:
    from distributed.security import Security

    for path in (tls.authority, tls.certificate, tls.key):
        if not path.is_file():
            raise UserError(f"there is no file {path}; give the certificates that the cluster was started with")
    security = Security(
        tls_ca_file=str(tls.authority),
        tls_client_cert=str(tls.certificate),
        tls_client_key=str(tls.key),
        require_encryption=True,
    )
    try:
        security.get_connection_args("client")
    except OSError as error:
        raise UserError(
            f"{tls.authority}, {tls.certificate} and {tls.key} cannot be used as certificates of an authority and of a "
            f"node and the node's key ({error.strerror or error}); give files in PEM form that belong together"
        ) from error
    return security
