"""``quantkit serve``: bundles over HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import click

from quantkit.cli.option_types import Memory, Milliseconds
from quantkit.cli.options import Verb, collected, engine_option, given, option, output_options
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.extras import EXTRAS, require

_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class AddressOptions:
    """Where the server listens, and who may ask."""

    host: str = option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
    port: int = option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8000,
        show_default=True,
        help="The port to listen on; 0: any that is free.",
    )
    certificate: Optional[Path] = option(
        "--certificate", type=click.Path(path_type=Path), metavar="FILE", help="Use TLS, with this certificate (PEM)."
    )
    key: Optional[Path] = option(
        "--key", type=click.Path(path_type=Path), metavar="FILE", help="The certificate's key (PEM)."
    )
    token_file: Optional[Path] = option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Refuse requests without the token in this file, which they give as Authorization: Bearer TOKEN.",
    )


@dataclass(frozen=True)
class LimitOptions:
    """What requests may take."""

    body: int = option("--max-body", type=Memory(), default="32MiB", show_default=True, help="The largest request.")
    milliseconds: float = option(
        "--timeout", type=Milliseconds(), default="30s", show_default=True, help="The most time for an answer."
    )
    requests: int = option(
        "--max-requests",
        type=click.IntRange(min=1),
        default=64,
        show_default=True,
        metavar="N",
        help="The most requests at a time; further ones are refused at once.",
    )


@dataclass(frozen=True)
class MonitorOptions:
    """What is watched."""

    on: bool = option(
        "--monitor",
        is_flag=True,
        default=False,
        help="Watch whether inputs and outputs drift from calibration.",
    )
    events: Optional[Path] = option(
        "--events",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder for the events of a monitor, NAME/VERSION.jsonl each, which `quantkit watch` reads.",
    )
    references: tuple[Path, ...] = option(
        "--reference",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="BUNDLE",
        help="The fused FP32 bundle of one of the networks, for the next two options. Repeatable.",
    )
    shadow: Optional[int] = option(
        "--shadow",
        type=click.IntRange(min=0),
        metavar="N",
        help="Run one of N samples in FP32, too, to tell how far INT8 agrees; 0: none.  [default: 1000]",
    )
    fp32_below: float = option(
        "--fp32-below",
        type=click.FloatRange(0, 1),
        default=0.0,
        metavar="MARGIN",
        help="Answer in FP32 where the probabilities of the two best classes differ by less.",
    )


@click.command(
    cls=Verb,
    examples=(
        "quantkit serve resnet50_v1-int8",
        "quantkit serve resnet50_v1-int8 --deployment resnet50_v1-int8-deployment/deployment.toml",
        "quantkit serve resnet50_v1-int8 --monitor --events events --reference resnet50_v1-fp32",
        "quantkit serve faces=ssd-int8 net/1=net-fp32 net/2=net-int8 --host 0.0.0.0 --token-file token",
    ),
)
@click.argument("bundles", nargs=-1, required=True, metavar="[NAME[/VERSION]=]BUNDLE...")
@collected("address", AddressOptions)
@engine_option
@click.option(
    "--instances",
    metavar="N|POLICY",
    help="Run each network in N processes, or in one on each core (core) or memory node (node).  [default: 1]",
)
@click.option(
    "--deployment",
    "deployments",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What `quantkit tune` wrote for one of the bundles; it says engine, instances and workers. Repeatable.",
)
@collected("limits", LimitOptions)
@collected("monitor", MonitorOptions)
@output_options
def serve(
    terminal: Terminal,
    bundles: tuple[str, ...],
    address: AddressOptions,
    engine: Optional[str],
    instances: Optional[str],
    deployments: tuple[Path, ...],
    limits: LimitOptions,
    monitor: MonitorOptions,
) -> None:
    """Answer requests over HTTP by the Open Inference Protocol.

    The protocol is version 2 of KServe's, which Triton's clients speak as well: tensors as JSON or bytes, and images as
    files (BYTES) or pixels (UINT8). A bundle's NAME is that of its folder, its VERSION 1; of several versions the last
    answers where a request names none. /docs describes the interface, /metrics has figures for Prometheus. Requests
    that are being served when the server ends are answered first.
    """
    for module in EXTRAS["serve"].values():
        require("serve", module, "servers")
    from quantkit.cli.networks import warn_of_bundle
    from quantkit.deployment.serving.bearer import read_token
    from quantkit.deployment.serving.limits import Limits
    from quantkit.deployment.serving.listener import Address, listening
    from quantkit.deployment.serving.models import loaded_models, model_place
    from quantkit.deployment.serving.monitors import Monitoring, monitors
    from quantkit.deployment.serving.server import serving

    place = Address(address.host, address.port, address.certificate, address.key)
    token = None if address.token_file is None else read_token(address.token_file)
    bounds = Limits(limits.body, requests=limits.requests, seconds=limits.milliseconds / 1000)
    places = [model_place(text) for text in bundles]
    if address.host not in _LOCAL:
        if token is None:
            terminal.warn(f"whoever reaches {address.host} may send requests; --token-file asks them for a token")
        elif place.certificate is None:
            terminal.warn("the token travels in clear text; encrypt with --certificate and --key, or in a proxy")
    if not monitor.on and (asked := next(given(monitor), None)):
        raise UserError(f"{asked} is for a monitor; give --monitor as well")
    wanted = Monitoring(monitor.events, monitor.references, monitor.shadow, monitor.fp32_below)
    watched = monitors(places, wanted) if monitor.on else {}
    for each in places if monitor.on else ():
        if each not in watched:
            terminal.warn(f"{each.directory} is not watched: it does not say what its network read in calibration")
    with ExitStack() as stack:
        listener = stack.enter_context(listening(place))
        models = stack.enter_context(loaded_models(places, engine, instances, deployments, bounds.pixels, watched))
        for each in places:
            weights = models[each.name][each.version].predictor.manifest.source.weights
            warn_of_bundle(terminal, str(each.directory), weights)
        listed, url = [f"{each.name}/{each.version}" for each in places], listener.url
        with serving(models, listener, bounds, token) as ended:
            try:
                # Whoever has read the address may end the server at once.
                terminal.show({"url": url, "models": listed}, f"{', '.join(listed)} at {url}, described at {url}/docs")
                ended.result()
            except KeyboardInterrupt:
                terminal.work.ended_as_asked()
