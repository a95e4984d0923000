"""The packages that only some of the work needs, and the extras of quantkit that bring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from quantkit.errors import ExtraMissing

EXTRAS: Mapping[str, Mapping[str, str]] = {
    "onednn": {"mxnet": "mxnet", "gluoncv": "gluoncv"},
    "mkl": {"mxnet-mkl": "mxnet", "gluoncv": "gluoncv"},
    "samples": {"scikit-image": "skimage", "scikit-learn": "sklearn"},
    "report": {"jinja2": "jinja2", "matplotlib": "matplotlib", "scipy": "scipy"},
    "tasks": {"pycocotools": "pycocotools"},
    "benchmark": {"mlcommons-loadgen": "mlperf_loadgen", "scipy": "scipy"},
    "onnx": {"onnx": "onnx"},
    "onnxruntime": {"onnxruntime": "onnxruntime"},
    "openvino": {"openvino": "openvino"},
    "cluster": {"distributed": "distributed", "cryptography": "cryptography"},
    "serve": {
        "fastapi": "fastapi",
        "fastapi-offline": "fastapi_offline",
        "prometheus-client": "prometheus_client",
        "uvicorn": "uvicorn",
    },
    "ray": {
        "fastapi": "fastapi",
        "fastapi-offline": "fastapi_offline",
        "prometheus-client": "prometheus_client",
        "ray": "ray",
    },
    "object-store": {"fsspec": "fsspec"},
    "horovod": {"horovod": "horovod", "psutil": "psutil"},
    "s3": {"s3fs": "s3fs", "fsspec": "fsspec"},
}
"""The packages of each extra by name, and what they are imported as."""


@contextmanager
def using(extra: str, what: str, error: type[ExtraMissing] = ExtraMissing) -> Iterator[None]:
    """Import packages of an extra within this, for ``what`` (a plural: "reports").

    Raises:
        ExtraMissing: one cannot be imported; of the class ``error``.
    """
    try:
        yield
    except ImportError as cause:
        imported = (cause.name or "").partition(".")[0]
        names = {module: package for package, module in EXTRAS[extra].items()}
        package = names.get(imported, next(iter(EXTRAS[extra])))
        raise error(_message(extra, package, what, f" ({cause})")) from cause


def require(extra: str, module: str, what: str, instead: str = "") -> None:
    """Make sure that a module of an extra is installed, without importing it; ``instead`` is another remedy.

    Raises:
        ExtraMissing: it is not.
    """
    if find_spec(module) is None:
        package = next(package for package, each in EXTRAS[extra].items() if each == module)
        raise ExtraMissing(_message(extra, package, what) + (instead and f", or {instead}"))


def missing_packages(extra: str) -> tuple[str, ...]:
    """The packages of an extra that are not installed; none is imported."""
    return tuple(package for package, module in EXTRAS[extra].items() if find_spec(module) is None)


def _message(extra: str, package: str, what: str, why: str = "") -> str:
    return f"{what} need the package {package}{why}; install it: pip install 'quantkit[{extra}]'"
