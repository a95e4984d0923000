"""Accuracy of trained networks: FP32, quantkit's INT8 by methods and presets, stock MXNet's INT8, and the peers'.

    QUANTKIT_REAL_DATA=DATA python benchmarks/accuracy.py --out benchmarks/results/accuracy
    python benchmarks/accuracy.py --peers                               # with ONNX Runtime's and NNCF's quantizers
    python benchmarks/accuracy.py --suite benchmarks/ablation.toml      # the algorithms one by one

prints a table and writes it as OUT.md and OUT.json, and what each image said of each row as OUT.npz. All rows of a
network see the same images, preprocessed once, and the peers the same network, as ONNX. Rows of a method alone apply
no algorithms; those of a preset calibrate with the default method.

OUT.npz has for each network ``NETWORK/forms``, the rows' forms with their number of calibration images, and beside
them, a row each, ``top1``, ``top5`` and ``same`` (whether FP32 has the same top-1), bits as ``numpy.packbits`` leaves
them, and ``one_less_cosine``, float16.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from accuracy_peers import Peers
from accuracy_rows import rows
from accuracy_tables import line, markdown
from command_line import data_root, host_facts, run, write_results

from quantkit.benchmark.accuracy.rows import Row, document
from quantkit.files.files import writing


def main() -> None:
    """Run the suite named on the command line."""
    options = _options()
    root = data_root()
    peers = Peers(options.peers) if options.peers is not False else None
    suite = tomllib.loads(options.suite.read_text())
    if options.images is not None:
        suite["images"] = options.images
    found: list[Row] = []
    for network in suite["network"]:
        if not options.network or any(part in network["model"] for part in options.network):
            for row in rows(network, suite, root, peers):
                found.append(row)
                print(line(row), flush=True)
            # After each network: a run takes hours, and may be interrupted.
            if options.out is not None:
                _write(options, found, peers)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, default=Path(__file__).with_name("trained.toml"))
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json and OUT.npz")
    parser.add_argument("--network", action="append", help="only networks whose name contains this")
    parser.add_argument("--images", type=int, metavar="N", help="only the first N test images")
    parser.add_argument(
        "--peers",
        type=Path,
        nargs="?",
        const=None,
        default=False,
        metavar="PYTHON",
        help="the peers' quantizers too, by this interpreter (default: that of .venv-peers)",
    )
    return parser.parse_args()


def _write(options: argparse.Namespace, found: Sequence[Row], peers: Optional[Peers]) -> None:
    command = "python benchmarks/accuracy.py" + "".join(f" --network {part}" for part in options.network or ())
    command += f" --suite benchmarks/{options.suite.name}" if options.suite.name != "trained.toml" else ""
    command += f" --images {options.images}" if options.images is not None else ""
    command += " --peers" if peers is not None else ""
    host = {**host_facts(), "numpy": np.__version__, **(peers.versions if peers is not None else {})}
    write_results(options.out, command, host, {"rows": document(found)}, markdown)
    with writing(options.out.with_name(f"{options.out.name}.npz")) as file:
        np.savez_compressed(file, **_arrays(found))


def _arrays(found: Sequence[Row]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for network in dict.fromkeys(row.network for row in found):
        own = [(row, row.images) for row in found if row.network == network and row.images is not None]
        arrays[f"{network}/forms"] = np.array([f"{row.form}, {row.calibration_samples or 0}" for row, _ in own])
        for name in ("top1", "top5", "same"):
            arrays[f"{network}/{name}"] = np.packbits([getattr(images, name) for _, images in own], axis=1)
        cosines = np.stack([images.cosine for _, images in own])
        arrays[f"{network}/one_less_cosine"] = (1 - cosines).astype(np.float16)
    return arrays


if __name__ == "__main__":
    run(main)
