"""Whether a server of `quantkit serve` keeps its memory, its descriptors and its threads, and answers all: one hour.

    python benchmarks/serving_soak.py --out benchmarks/results/serving-soak

The server has the digits network that ships, in INT8, with a monitor that writes events, and one process of the network
on all cores. Each minute, 8 callers on the same machine and cores ask at 80 % of the rate that was measured before for
requests of this kind: by turns preprocessed images as bytes, image files (PNG), and preprocessed images as JSON. Read
in the middle of each minute: resident memory, open descriptors and threads, those of the server and of the processes
that it has started together. The first fifth of the minutes is warm-up, as in soak.py; a line is fitted to the memory
of the others, in means of three minutes, by requests of all kinds, with Student's 95 % interval of its slope.

Memory is flat where that interval ends below 16 bytes a request; descriptors and threads are flat where they never
exceed those of the warm-up. The exit code is 1 where something is not flat, a request is not answered with 200, or a
process was replaced. Nothing else may run.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from statistics import median

import numpy as np
from command_line import Document, arguments, at_least, described, host_facts, run, table, write_results
from paced_callers import ask
from PIL import Image
from serving import request, served
from soak import MOST_BYTES, WARM_UP, Slope, slope_of

import quantkit
from quantkit.bundle import read_bundle
from quantkit.data.builtin import digits
from quantkit.data.preprocess import apply
from quantkit.data.samples import take
from quantkit.deployment.serving.messages import JSON_LENGTH
from quantkit.errors import QuantkitError
from quantkit.files.folders import scratch_folder
from quantkit.host.children import descendants

_NETWORK = "digits_resnet20_v1"
_CALLERS, _SHARE = 8, 0.8
_KINDS = ("bytes", "files", "JSON")

_LOADS = ("requests", "capacity, requests/s", "answered with 200", "others", "p50, ms", "p99, ms", "largest, ms")
_FIGURES = ("read", "first", "warm", "last", "growth", "verdict")

Body = tuple[Path, Mapping[str, str]]


@dataclass(frozen=True)
class Minute:
    """One minute of load.

    Attributes:
        kind: of its requests.
        answered: how many were answered with 200.
        others: how many had another status, by status, or no answer.
        p50: of the times of those answered, in ms, and so on.
        p99: likewise.
        largest: likewise.
        memory: the resident bytes of the server's processes together.
        descriptors: likewise, and ``threads``.
        threads: likewise.
        processes: their numbers.
    """

    kind: str
    answered: int
    others: Mapping[str, int]
    p50: float
    p99: float
    largest: float
    memory: int
    descriptors: int
    threads: int
    processes: list[int]


def main() -> None:
    """Soak a server."""
    parser = arguments(__doc__)
    parser.add_argument("--cycles", type=at_least(5), default=20, help="of three minutes")
    parser.add_argument("--seconds", type=at_least(4), default=60, help="of a minute, for trials")
    options = parser.parse_args()
    with scratch_folder() as scratch:
        config = quantkit.QuantizationConfig(num_samples=200)
        bundle = quantkit.quantize(_NETWORK, "digits:train", config).save(scratch / "digits")
        bodies = _bodies(bundle, scratch)
        monitor = ["--monitor", "--events", str(scratch / "events")]
        with served(bundle, monitor) as (url, process):
            asked = f"{url}/v2/models/{bundle.name}/infer"
            capacity = {kind: _rate(asked, body) for kind, body in bodies.items()}
            minutes = []
            for kind in options.cycles * _KINDS:
                minutes.append(_minute(asked, kind, bodies[kind], _SHARE * capacity[kind], process, options.seconds))
                print(f"{len(minutes)}: {minutes[-1]}", flush=True)
    if options.out is not None:
        command = f"python benchmarks/serving_soak.py --cycles {options.cycles} --seconds {options.seconds}"
        figures = {"capacity": capacity, "minutes": [asdict(each) for each in minutes]}
        write_results(options.out, command, host_facts(), figures, page)
    if not is_well(minutes):
        sys.exit("a request was not answered, a process was replaced, or memory, descriptors or threads grow")


def _bodies(bundle: Path, folder: Path) -> dict[str, Body]:
    """A request of each kind in a file, and its headers."""
    opened, (sample,) = read_bundle(bundle), take(digits("test"), 1)
    name, preprocess = opened.manifest.input.name, opened.preprocess
    assert preprocess is not None
    values = apply(preprocess, sample.image, input_shape=opened.manifest.input.shape)[None]
    found: dict[str, Body] = {"bytes": request(folder, name, values)}
    picture = BytesIO()
    Image.fromarray(sample.image).save(picture, "PNG")
    content = struct.pack("<I", len(picture.getvalue())) + picture.getvalue()
    tensor = {"name": name, "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(content)}}
    text = json.dumps({"inputs": [tensor]}).encode()
    (folder / "files").write_bytes(text + content)
    found["files"] = folder / "files", {JSON_LENGTH: str(len(text))}
    listed = {"name": name, "datatype": "FP32", "shape": values.shape, "data": values.ravel().tolist()}
    (folder / "json").write_text(json.dumps({"inputs": [listed]}))
    found["JSON"] = folder / "json", {}
    return found


def _rate(url: str, body: Body, seconds: float = 10.0) -> float:
    ask(url, *body, _CALLERS, 1.0)
    return len(ask(url, *body, _CALLERS, seconds).latencies) / seconds


def _minute(url: str, kind: str, body: Body, rate: float, process: int, seconds: float) -> Minute:
    with ThreadPoolExecutor(1) as executor:
        load = executor.submit(ask, url, *body, _CALLERS, seconds, rate)
        time.sleep(seconds / 2)
        processes = [process, *sorted(descendants(process))]
        memory, descriptors, threads = np.sum([_reading(each) for each in processes], axis=0).tolist()
        found = load.result()
    if not found.latencies:
        raise QuantkitError(f"the server answers no request ({kind}) with 200: {dict(found.others)}")
    p50, p99, largest = np.percentile(found.latencies, [50, 99, 100]).tolist()
    times = p50, p99, largest
    return Minute(kind, len(found.latencies), dict(found.others), *times, memory, descriptors, threads, processes)


def _reading(process: int) -> tuple[int, int, int]:
    """Bytes of resident memory, open descriptors and threads of a process."""
    place = Path(f"/proc/{process}")
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    descriptors = sum(1 for _ in (place / "fd").iterdir())
    return int(status["VmRSS"].split()[0]) * 1024, descriptors, int(status["Threads"])


def growth(minutes: list[Minute]) -> Slope:
    """Of memory, in bytes a request."""
    answered = np.array([each.answered for each in minutes])
    # At the middle of each minute.
    requests = (np.cumsum(answered) - answered / 2).tolist()
    cycles = (len(minutes) - _warm(minutes)) // len(_KINDS)
    return slope_of(requests, [each.memory for each in minutes], cycles)


def _warm(minutes: list[Minute]) -> int:
    return int(len(minutes) * WARM_UP)


def is_well(minutes: list[Minute]) -> bool:
    """Whether all was answered by the same processes and nothing grows, see above."""
    return _stays(minutes) and not any(each.others for each in minutes) and all(_verdicts(minutes))


def _stays(minutes: list[Minute]) -> bool:
    return all(each.processes == minutes[0].processes for each in minutes)


def _verdicts(minutes: list[Minute]) -> tuple[bool, bool, bool]:
    first, later = minutes[: _warm(minutes)], minutes[_warm(minutes) :]
    return (
        growth(minutes).high < MOST_BYTES,
        max(each.descriptors for each in later) <= max(each.descriptors for each in first),
        max(each.threads for each in later) <= max(each.threads for each in first),
    )


def page(document: Document) -> str:
    """The page of a run's JSON."""
    minutes = [Minute(**each) for each in document["minutes"]]
    loads = [
        _load(kind, document["capacity"][kind], [each for each in minutes if each.kind == kind]) for kind in _KINDS
    ]
    parts = (
        described(document),
        f"{len(minutes)} minutes at {_SHARE:.0%} of the capacity. Percentiles are medians over minutes; the server's "
        f"processes {'were the same all the time' if _stays(minutes) else 'WERE REPLACED'}.",
        "\n".join([*table(_LOADS), *loads]),
        "All processes of the server together. The growth of memory is in bytes a request, with its 95 % interval.",
        "\n".join([*table(_FIGURES), *_figures(minutes)]),
    )
    return "\n\n".join(parts) + "\n"


def _load(kind: str, capacity: float, minutes: list[Minute]) -> str:
    others: Counter[str] = sum((Counter(each.others) for each in minutes), Counter())
    told = ", ".join(f"{count} of {status}" for status, count in sorted(others.items())) or "none"
    medians = median(each.p50 for each in minutes), median(each.p99 for each in minutes)
    times = (*medians, max(each.largest for each in minutes))
    answered = sum(each.answered for each in minutes)
    return f"| {' | '.join((kind, f'{capacity:.0f}', str(answered), told, *(f'{time:.1f}' for time in times)))} |"


def _figures(minutes: list[Minute]) -> Iterator[str]:
    warm, slope = _warm(minutes), growth(minutes)
    verdicts = ["flat" if flat else "GROWS" for flat in _verdicts(minutes)]
    memory = [f"{minutes[place].memory / 1e6:.1f}" for place in (0, warm, -1)]
    grown = f"{slope.value:+.2f} [{slope.low:+.2f}, {slope.high:+.2f}]"
    yield f"| {' | '.join(('memory, MB', *memory, grown, verdicts[0]))} |"
    for name, verdict in zip(("descriptors", "threads"), verdicts[1:]):
        counts = [getattr(each, name) for each in minutes]
        told = (str(counts[0]), str(counts[warm]), str(counts[-1]), f"at most {max(counts[warm:])}")
        yield f"| {' | '.join((name, *told, verdict))} |"


if __name__ == "__main__":
    run(main)
