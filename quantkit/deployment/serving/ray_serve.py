"""Bundles on a cluster: an application of Ray Serve, each of whose replicas answers as ``quantkit serve`` does."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Optional, Union

from quantkit.bundle.read import read_bundle
from quantkit.deployment.network import known_engine
from quantkit.deployment.serving.bearer import read_token
from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.models import ModelPlace, check_names, loaded_models, model_place, tuned_files
from quantkit.errors import BundleError, EngineError, QuantkitError, UserError
from quantkit.extras import using
from quantkit.files.schema import first_fault
from quantkit.host.threads import worker_threads

with using("ray", "applications of Ray Serve"):
    from fastapi import FastAPI
    from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError
    from ray import serve
    from ray.serve.exceptions import RayServeException

    from quantkit.deployment.serving.application import application as web_application

_LOG = logging.getLogger(__name__)

# Seconds for answers beyond the time that they may take, when a replica ends.
_GRACE = 10.0

_THREADS = "OMP_NUM_THREADS"


def _listed(value: Any) -> Any:
    """One text or path, or several, as a list of texts."""
    if isinstance(value, (list, tuple)):
        return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in value]
    return [os.fspath(value)] if isinstance(value, (str, os.PathLike)) else value


_Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
_Count = Annotated[int, Field(ge=1)]


class Arguments(BaseModel):
    """What a cluster serves, and how: the arguments of ``application`` in a configuration of Ray Serve.

    Paths are those of the nodes, where each must find the same. Relative ones lead from the working directory of the
    application, which Ray can bring to all nodes, or else from where Ray was started on each.

    Attributes:
        bundles: one or several, as ``quantkit serve`` takes them: ``BUNDLE``, ``NAME=BUNDLE`` or
            ``NAME/VERSION=BUNDLE``.
        engine: as for ``load``.
        instances: of each bundle in a replica that has no deployment, as for ``load``.
        deployments: the files that ``quantkit tune`` wrote for some bundles, if all nodes are alike.
        token_file: the file of the token that requests must bring; None: none.
        requests: the most at a time in a replica; as many wait at each of Ray's proxies, which refuse further ones.
        seconds: the most for an answer, from when a replica has the request.
        replicas: how many there are; at least, if there is a maximum.
        most_replicas: how many there are at most; None: always ``replicas``.
        wanted_requests: at a time in a replica, to which their number is adapted; None: 8.
        cpus: that Ray sets aside on a node for its replica.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    bundles: Annotated[_Texts, Field(min_length=1)]
    engine: Optional[str] = None
    instances: str = "1"
    deployments: _Texts = ()
    token_file: Optional[Path] = None
    requests: _Count = 64
    seconds: Annotated[FiniteFloat, Field(gt=0)] = 30.0
    replicas: _Count = 1
    most_replicas: Optional[_Count] = None
    wanted_requests: Optional[_Count] = None
    cpus: Annotated[FiniteFloat, Field(ge=0)] = 1.0

    @property
    def places(self) -> list[ModelPlace]:
        """The bundles' folders and names."""
        return list(map(model_place, self.bundles))

    @property
    def limits(self) -> Limits:
        """What requests may take."""
        return Limits(requests=self.requests, seconds=self.seconds)

    @property
    def tuned(self) -> list[Path]:
        """The files of deployments."""
        return list(map(Path, self.deployments))

    @property
    def token(self) -> Optional[str]:
        """The token, read from its file."""
        return None if self.token_file is None else read_token(self.token_file)


class ApplicationError(UserError, RayServeException):
    """An application cannot be made of its arguments; Ray shows the message alone, and does not try again."""


class Replica:
    """The bundles on one node, which ``serve.ingress`` leads requests to."""

    def __init__(self, arguments: Arguments, hashes: Sequence[str]) -> None:
        """Load the bundles.

        Raises:
            BundleError: this node has others than those with these hashes.
            QuantkitError: they cannot be loaded; see ``load``.
        """
        _forget_rays_threads(arguments.cpus)
        self._limits, self._token = arguments.limits, arguments.token
        for place, sha256 in zip(arguments.places, hashes):
            if read_bundle(place.directory).sha256 != sha256:
                raise BundleError(
                    f"{place.directory} is another bundle on this node than where it was deployed; give all nodes the "
                    "same, and a new bundle a path of its own"
                )
        with ExitStack() as stack:
            self._models = stack.enter_context(
                loaded_models(
                    arguments.places, arguments.engine, arguments.instances, arguments.tuned, self._limits.pixels
                )
            )
            self._threads = stack.enter_context(ThreadPoolExecutor(max(2, worker_threads()), "quantkit replica's"))
            self._close = stack.pop_all().close

    def __serve_build_asgi_app__(self) -> FastAPI:
        """What answers; Ray Serve asks for it."""
        return web_application(self._models, self._limits, self._threads, self._token, has_metrics=False)

    def check_health(self) -> None:
        """Ray Serve replaces a replica for which this fails.

        Raises:
            EngineError: a bundle can answer no more.
        """
        for versions in self._models.values():
            for served in versions.values():
                if served.predictor.status().failed:
                    raise EngineError(f"model {served.name!r} can answer no more; the log says why")

    def __del__(self) -> None:
        """Ray Serve calls this when the replica ends."""
        if hasattr(self, "_close"):
            self._close()


def application(arguments: Union[Arguments, Mapping[str, Any]]) -> serve.Application:
    """An application for ``serve.run``, ``serve run`` and configurations of Ray Serve.

    It has one replica on a node at most, which uses all of its cores: the processes of instances are pinned as those of
    ``load``. Addresses and answers are those of ``quantkit serve``, without ``/metrics``: Ray has figures of all.

    Raises:
        ApplicationError: an argument cannot be used, or what it names cannot be read.
    """
    try:
        arguments = _checked(arguments)
        bundles = [read_bundle(place.directory) for place in arguments.places]
    except QuantkitError as error:
        raise ApplicationError(str(error)) from error
    for bundle in bundles:
        if bundle.manifest.source.weights == "random":
            _LOG.warning("%s was never trained: its predictions mean nothing", bundle.directory)
    scaling: dict[str, Any] = {"num_replicas": arguments.replicas}
    if arguments.most_replicas is not None:
        config = {"min_replicas": arguments.replicas, "max_replicas": arguments.most_replicas}
        scaling = {"autoscaling_config": {**config, "target_ongoing_requests": arguments.wanted_requests or 8}}
    deployment = serve.deployment(
        name="quantkit",
        max_ongoing_requests=arguments.requests,
        max_queued_requests=arguments.requests,
        max_replicas_per_node=1,
        ray_actor_options={"num_cpus": arguments.cpus},
        graceful_shutdown_timeout_s=arguments.seconds + _GRACE,
        **scaling,
    )(serve.ingress()(Replica))
    return deployment.bind(arguments, [bundle.sha256 for bundle in bundles])


def _checked(given: Union[Arguments, Mapping[str, Any]]) -> Arguments:
    """The arguments, if they can be used on this node."""
    try:
        arguments = Arguments.model_validate(given)
    except ValidationError as error:
        place, what = first_fault(error)
        raise UserError(f"the application's argument {place} cannot be used: {what}" if place else what) from error
    most = arguments.most_replicas
    if most is None and arguments.wanted_requests is not None:
        raise UserError("wanted_requests is for a number of replicas that changes; give most_replicas as well")
    if most is not None and most < arguments.replicas:
        raise UserError(f"there are {arguments.replicas} replicas at least, and {most} at most; give a larger maximum")
    if arguments.engine not in (None, "auto"):
        known_engine(arguments.engine)
    check_names(arguments.places)
    tuned_files(arguments.tuned)
    # Their errors are told here, before any replica starts.
    _ = arguments.limits, arguments.token
    return arguments


def _forget_rays_threads(cpus: float) -> None:
    """Ray sets the variable to the processors that it sets aside, which are not those that may be used."""
    if os.environ.get(_THREADS) == str(max(1, int(cpus))):
        del os.environ[_THREADS]
