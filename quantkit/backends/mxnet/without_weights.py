"""Building GluonCV's networks without weights, where its functions would fetch those of a part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.errors import ModelError


@contextmanager
def without_weights(name: str) -> Iterator[None]:
    """Keep GluonCV from fetching weights while it builds the network ``name``.

    Raises:
        ModelError: it tries to all the same.
    """
    load_gluoncv()
    from gluoncv.model_zoo import model_store
    from gluoncv.model_zoo.action_recognition import actionrec_resnetv1b

    def refused(*args: Any, **options: Any) -> None:
        raise ModelError(f"GluonCV fetches weights to build {name}; build it with yours, and load it as a block")

    action = actionrec_resnetv1b.ActionRecResNetV1b
    initialize = action.__init__

    def initialized(block: Any, *args: Any, **options: Any) -> None:
        initialize(block, *args, **{**options, "pretrained_base": False})

    parameters = load_mxnet().gluon.ParameterDict
    with (
        _replaced(model_store, "get_model_file", refused),
        # Its functions take pretrained_base, but do not hand it on.
        _replaced(action, "__init__", initialized),
        # They move parameters to the context that these have already, which fails without values.
        _replaced(parameters, "reset_ctx", lambda each, context: None),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
