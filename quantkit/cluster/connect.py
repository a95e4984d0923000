"""Connecting to a cluster: one that runs already, or some workers on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from quantkit.errors import ClusterError, UserError
from quantkit.extras import using

if TYPE_CHECKING:
    from distributed import Client

_LOCAL = "local:"
_MOST_LOCAL = 1024
_FORMS = "give local:N for N workers on this machine, a scheduler's address (tcp://HOST:8786), or its file (.json)"

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
    where = _where(cluster)
    security = None if tls is None else _security(tls)
    try:
        client = distributed.Client(**where, security=security, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ClusterError(
            f"no scheduler answers at {cluster} ({str(error).splitlines()[0][:200]}); start one with dask scheduler, "
            "or give another address"
        ) from error
    with client:
        yield client


@contextmanager
def _local(workers: int, dashboard: bool) -> Iterator[Client]:
    """Workers on this machine that take orders from this user's processes alone, by certificates made for them."""
    import distributed
    from distributed.security import Security

    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=Security.temporary(),
            dashboard_address="127.0.0.1:0" if dashboard else None,
            worker_dashboard_address=None,
            silence_logs=40,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _number(cluster: str) -> int:
    digits = cluster.removeprefix(_LOCAL)
    if not digits.isdecimal() or not 1 <= int(digits) <= _MOST_LOCAL:
        raise UserError(f"{cluster!r} names no number of workers from 1 to {_MOST_LOCAL}; {_FORMS}")
    return int(digits)


def _where(cluster: str) -> dict[str, Any]:
    if cluster.endswith(".json"):
        if not os.path.isfile(cluster):
            raise UserError(f"there is no scheduler file {cluster}; {_FORMS}")
        return {"scheduler_file": cluster}
    address = cluster.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise UserError(f"{cluster!r} is no cluster; {_FORMS}")
    return {"address": cluster}


def _security(tls: TlsFiles) -> Any:
    from distributed.security import Security

    for path in (tls.authority, tls.certificate, tls.key):
        if not path.is_file():
            raise UserError(f"there is no file {path}; give the certificates that the cluster was started with")
    return Security(
        tls_ca_file=str(tls.authority),
        tls_client_cert=str(tls.certificate),
        tls_client_key=str(tls.key),
        require_encryption=True,
    )
