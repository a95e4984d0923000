"""Whether results of a cluster are those of one process, to the last bit, whatever shares out the samples.

    python benchmarks/cluster_identity.py --out benchmarks/results/cluster-identity

The network that ships is quantized and evaluated with 1, 2 and 4 workers, cut into shards in three ways, by three
methods of calibration and with every preset. Bundles are compared file by file, evaluations as JSON. OUT.json has the
SHA-256 of everything, OUT.md how many of each were compared. Ends with 1 where a result is another.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional, get_args

from command_line import Document, arguments, host_facts, rows_page, run, table, write_results

from quantkit.bundle.network import network_in, network_of
from quantkit.cluster.connect import connected
from quantkit.cluster.executor import ClusterExecutor
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.sources import load_data
from quantkit.evaluation.evaluate import evaluate_networks
from quantkit.models.load import load_model
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.ptq_config import PresetName
from quantkit.stages import run_stages

NETWORK = "digits_resnet20_v2"
SAMPLES = 200
WORKERS, METHODS = (1, 2, 4), ("minmax", "entropy", "mse")
# None: as ``ClusterExecutor`` cuts them by itself.
SHARD_SIZES: tuple[Optional[int], ...] = (8, 40, None)
PRESETS: tuple[PresetName, ...] = get_args(PresetName)

_COLUMNS = ("workers", "images in a shard", "method", "INT8 bundles and evaluations")


@dataclass(frozen=True)
class Result:
    """What one way of sharing out the samples gives; ``workers`` is None in one process.

    Attributes:
        bundle: the SHA-256 of the INT8 bundle, its calibration table included.
        evaluation: that of its evaluation against FP32.
    """

    workers: Optional[int]
    shard_size: Optional[int]
    method: str
    preset: str
    bundle: str
    evaluation: str


def main() -> None:
    """Compare every way with one process."""
    options = arguments(__doc__).parse_args()
    found = list(results())
    print("\n".join([*table(_COLUMNS), *_lines(found)]))
    if options.out is not None:
        figures = {"network": NETWORK, "samples": SAMPLES, "results": [asdict(each) for each in found]}
        write_results(options.out, "python benchmarks/cluster_identity.py", host_facts(), figures, page)
    sys.exit(1 if differing(found) else 0)


def results() -> Iterator[Result]:
    """Those of one process first."""
    ways: list[tuple[Optional[int], Optional[int]]] = [(None, None)]
    ways += [(workers, size) for workers in WORKERS for size in SHARD_SIZES]
    for workers, size in ways:
        with ExitStack() as stack:
            executor: Executor = in_this_process
            if workers is not None:
                client = stack.enter_context(connected(f"local:{workers}"))
                executor = stack.enter_context(ClusterExecutor(client, size))
            for method in METHODS:
                for preset in PRESETS:
                    result = Result(workers, size, method, preset, *_hashes(method, preset, executor))
                    print(*asdict(result).values(), flush=True)
                    yield result


def _hashes(method: str, preset: PresetName, executor: Executor) -> tuple[str, str]:
    model = load_model(NETWORK)
    config = QuantizationConfig(num_samples=SAMPLES, method=method, preset=preset)
    quantized = run_stages(model, "digits:train", config, executor=executor).network
    with TemporaryDirectory() as folder:
        bundle = quantized.save(Path(folder) / "bundle")
        networks: Any = {"network": network_in(bundle), "reference": network_of(model)}
        evaluation = evaluate_networks(networks, load_data("digits:test"), executor=executor)
        return _folder_hash(bundle), hashlib.sha256(json.dumps(evaluation.document).encode()).hexdigest()


def _folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        digest.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def differing(found: Sequence[Result]) -> list[Result]:
    """The results that are not those of one process, in the bundle or in the evaluation."""
    alone = {(each.method, each.preset): each for each in found if each.workers is None}
    return [each for each in found if _told(each) != _told(alone[each.method, each.preset])]


def _told(result: Result) -> tuple[str, str]:
    return result.bundle, result.evaluation


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        f"{document['network']}, calibrated with {document['samples']} images, with the presets {', '.join(PRESETS)}. "
        "A bundle holds the calibration table, the INT8 network and the comparison with FP32; the same means that "
        "every file is that of one process, byte by byte."
    )
    return rows_page(document, _COLUMNS, _lines([Result(**each) for each in document["results"]]), note)


def _lines(found: Sequence[Result]) -> Iterator[str]:
    other = differing(found)
    for workers, size, method in dict.fromkeys((each.workers, each.shard_size, each.method) for each in found):
        if workers is None:
            continue
        own = [each for each in found if (each.workers, each.shard_size, each.method) == (workers, size, method)]
        worse = [each.preset for each in own if each in other]
        told = f"{len(own)} of {len(own)} the same" if not worse else f"other with {', '.join(worse)}"
        yield f"| {workers} | {'fewer towards the end' if size is None else size} | {method} | {told} |"


if __name__ == "__main__":
    run(main)
