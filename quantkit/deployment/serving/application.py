"""The web application: the Open Inference Protocol's addresses, and metrics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from quantkit.deployment.serving.bearer import Bearer
from quantkit.deployment.serving.inference import Inference
from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.messages import request_schema
from quantkit.deployment.serving.metrics import PAGE, Metrics
from quantkit.deployment.serving.models import Models
from quantkit.deployment.serving.refusal import refusal
from quantkit.deployment.serving.served import Served
from quantkit.version import __version__

_MODEL = "/v2/models/{name}"
_VERSION = "/v2/models/{name}/versions/{version}"

# The extensions of the protocol that are known here, by Triton's names.
_EXTENSIONS = ("binary_tensor_data", "classification")


def application(
    models: Models,
    limits: Limits,
    threads: ThreadPoolExecutor,
    token: Optional[str] = None,
    has_metrics: bool = True,
) -> FastAPI:
    """The application for some bundles.

    Args:
        models: the bundles.
        limits: of requests.
        threads: read JSON and decode images.
        token: what requests must bring as ``Authorization: Bearer TOKEN``, but for those of health; None: nothing.
        has_metrics: whether the figures have an address, which are those of this process alone.
    """
    app: FastAPI = FastAPIOffline(title="quantkit", version=__version__, redoc_url=None)
    served = [each for versions in models.values() for each in versions.values()]
    metrics = Metrics(served)
    inference = Inference(limits, metrics, threads)
    if token is not None:
        app.add_middleware(Bearer, token=token, refused=metrics.refused)

    def found(name: str, version: Optional[str] = None) -> Served:
        if name not in models:
            raise HTTPException(404, f"there is no model {name[:80]!r}; there are {', '.join(models)}")
        versions = models[name]
        if version is not None and version not in versions:
            raise HTTPException(404, f"model {name!r} has no version {version[:80]!r}; it has {', '.join(versions)}")
        return versions[version or list(versions)[-1]]

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        metrics.refused(error.status_code)
        return refusal(error.status_code, str(error.detail))

    @app.get("/v2/health/live", tags=["health"])
    async def live() -> Response:
        """Whether the server answers."""
        return Response()

    @app.get("/v2/health/ready", tags=["health"])
    async def all_ready() -> Response:
        """Whether all models can answer."""
        return _readiness(*served)

    @app.get("/v2", tags=["server"])
    async def server() -> dict[str, Any]:
        """The server, and the extensions of the protocol that it knows."""
        return {"name": "quantkit", "version": __version__, "extensions": _EXTENSIONS}

    @app.get(_MODEL, tags=["models"])
    async def metadata(name: str) -> dict[str, Any]:
        """The inputs and outputs of a model."""
        return {**found(name).metadata(), "versions": list(models[name])}

    @app.get(_VERSION, tags=["models"])
    async def metadata_of_version(name: str, version: str) -> dict[str, Any]:
        """The inputs and outputs of a version of a model."""
        return {**found(name, version).metadata(), "versions": list(models[name])}

    @app.get(f"{_MODEL}/ready", tags=["models"])
    async def ready(name: str) -> Response:
        """Whether a model can answer."""
        return _readiness(found(name))

    @app.get(f"{_VERSION}/ready", tags=["models"])
    async def version_ready(name: str, version: str) -> Response:
        """Whether a version of a model can answer."""
        return _readiness(found(name, version))

    body = {"content": {"application/json": {"schema": request_schema()}, "application/octet-stream": {}}}

    @app.post(f"{_MODEL}/infer", tags=["models"], openapi_extra={"requestBody": body})
    async def infer(name: str, request: Request) -> Response:
        """The outputs of a model for the inputs of a request."""
        return await inference.answer(found(name), request)

    @app.post(f"{_VERSION}/infer", tags=["models"], openapi_extra={"requestBody": body})
    async def infer_with_version(name: str, version: str, request: Request) -> Response:
        """The outputs of a version of a model for the inputs of a request."""
        return await inference.answer(found(name, version), request)

    async def prometheus() -> Response:
        """Figures in Prometheus' format."""
        return Response(metrics.page(), headers={"content-type": PAGE})

    if has_metrics:
        app.get("/metrics", tags=["server"])(prometheus)
    return app


def _readiness(*models: Served) -> Response:
    for model in models:
        if model.predictor.status().failed:
            return refusal(503, f"model {model.name!r} can answer no more; the server's log says why")
    return Response()
