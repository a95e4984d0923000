"""Bundles on a cluster: an application of Ray Serve, each of whose replicas answers as ``quantkit serve`` does."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Optional, Union

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ray import serve

from quantkit.bundle.read import read_bundle
from quantkit.deployment.serving.application import application as web_application
from quantkit.deployment.serving.bearer import read_token
from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.models import loaded_models, model_place
from quantkit.errors import BundleError, EngineError, UserError
from quantkit.files.schema import first_fault
from quantkit.host.threads import worker_threads

_Texts = Union[str, tuple[str, ...]]


class Arguments(BaseModel):
    """What a cluster serves, and how: the arguments of ``application`` in a configuration of Ray Serve.

    Paths are those of the nodes, where each must find the same: relative ones lead from the application's working
    directory, which Ray can bring to all nodes.

    Attributes:
        bundles: one or several, as ``quantkit serve`` takes them: ``BUNDLE``, ``NAME=BUNDLE`` or
            ``NAME/VERSION=BUNDLE``.
        engine: as for ``load``.
        instances: of each bundle in a replica, as for ``load``.
        deployments: the files that ``quantkit tune`` wrote for some bundles, if all nodes are alike.
        token_file: the file of the token that requests must bring; None: none.
        requests: the most at a time in a replica; as many wait, and further ones are refused.
        seconds: the most for an answer.
        replicas: how many there are; at least, if there is a maximum.
        most_replicas: how many there are at most; None: always ``replicas``.
        wanted_requests: at a time in a replica, to which their number is adapted.
        cpus: that Ray sets aside on a node for its replica.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bundles: _Texts
    engine: Optional[str] = None
    instances: str = "1"
    deployments: _Texts = ()
    token_file: Optional[Path] = None
    requests: Annotated[int, Field(ge=1)] = 64
    seconds: Annotated[float, Field(gt=0)] = 30.0
    replicas: Annotated[int, Field(ge=1)] = 1
    most_replicas: Annotated[Optional[int], Field(ge=1)] = None
    wanted_requests: Annotated[int, Field(ge=1)] = 8
    cpus: Annotated[float, Field(ge=0)] = 1.0


class Replica:
    """The bundles of one node, which ``serve.ingress`` leads requests to."""

    def __init__(self, arguments: Arguments, hashes: Mapping[str, str]) -> None:
        """Load the bundles.

        Raises:
            BundleError: this node has others than those with these hashes.
            QuantkitError: they cannot be loaded; see ``load``.
        """
        for text, sha256 in hashes.items():
            if read_bundle(model_place(text).directory).sha256 != sha256:
                raise BundleError(
                    f"{text} is another bundle on this node than where it was deployed; give all nodes the same, and "
                    "deploy again"
                )
        self._arguments = arguments
        self._limits = Limits(requests=arguments.requests, seconds=arguments.seconds)
        with ExitStack() as stack:
            self._models = stack.enter_context(
                loaded_models(
                    [model_place(text) for text in hashes],
                    arguments.engine,
                    None if arguments.deployments else arguments.instances,
                    list(map(Path, _listed(arguments.deployments))),
                    self._limits.pixels,
                )
            )
            self._threads = stack.enter_context(ThreadPoolExecutor(max(2, worker_threads()), "quantkit replica's"))
            self._close = stack.pop_all().close

    def __serve_build_asgi_app__(self) -> FastAPI:
        """What answers; Ray Serve asks for it."""
        token = None if self._arguments.token_file is None else read_token(self._arguments.token_file)
        return web_application(self._models, self._limits, self._threads, token, has_metrics=False)

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

    It has one replica on a node at most, which may use all of its cores: their processes are pinned as those of
    ``load``. Addresses and answers are those of ``quantkit serve``, without ``/metrics``: Ray has its own figures.

    Raises:
        UserError: an argument cannot be used, or a bundle is none.
        BundleError: a bundle was changed since it was written.
    """
    arguments = _checked(arguments)
    texts = _listed(arguments.bundles)
    if not texts:
        raise UserError("an application needs a bundle; give bundles")
    hashes = {text: read_bundle(model_place(text).directory).sha256 for text in texts}
    scaling = {
        "min_replicas": arguments.replicas,
        "max_replicas": max(arguments.replicas, arguments.most_replicas or 0),
        "target_ongoing_requests": arguments.wanted_requests,
    }
    fixed = arguments.most_replicas is None
    deployment = serve.deployment(
        name="quantkit",
        max_ongoing_requests=arguments.requests,
        max_queued_requests=arguments.requests,
        max_replicas_per_node=1,
        ray_actor_options={"num_cpus": arguments.cpus},
        **({"num_replicas": arguments.replicas} if fixed else {"autoscaling_config": scaling}),
    )(serve.ingress()(Replica))
    return deployment.bind(arguments, hashes)


def _checked(arguments: Union[Arguments, Mapping[str, Any]]) -> Arguments:
    try:
        return Arguments.model_validate(arguments)
    except ValidationError as error:
        place, what = first_fault(error)
        raise UserError(f"the application's argument {place or 'list'} cannot be used: {what}") from error


def _listed(texts: _Texts) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts
