"""The peers' quantizers in an environment of their own: each mode is a process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from command_line import Document, arguments, host_facts, write_results

from quantkit.benchmark.builds.recipes import PEERS_SCRIPT
from quantkit.bundle.export import export_onnx
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import UserError
from quantkit.host.dependent import dependent
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.models.model import Model

_ENVIRONMENT = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class PeerResult:
    """What one mode made of a network: all its outputs, each of shape (images, ...), or why it has none."""

    peer: str
    mode: str
    outputs: Union[tuple[np.ndarray, ...], str]
    seconds: float = 0.0


class Peers:
    """An interpreter that has the peers' packages (None: that of ``.venv-peers``), and their ``versions``.

    Raises:
        UserError: there is no such interpreter, or the packages are missing.
    """

    def __init__(self, python: Union[Path, None]) -> None:
        self._python = (python or _ENVIRONMENT).absolute()
        if not self._python.is_file():
            raise UserError(
                f"there is no interpreter {self._python} with the peers' packages; "
                "make one with `make .venv-peers/installed`, or name another: --peers PYTHON"
            )
        listed = self._call(PEERS_SCRIPT)
        if listed.returncode != 0:
            raise UserError(
                f"{self._python} lacks the peers' packages ({_last_line(listed)}); "
                "install them with `pip install 'quantkit[peers]'`"
            )
        found = json.loads(listed.stdout)
        self._modes: list[dict[str, Any]] = found["modes"]
        self.versions: dict[str, str] = found["versions"]

    def fp32(self, model: Model, test: np.ndarray) -> Iterator[PeerResult]:
        """Run the network as it is: whether the peers compute what MXNet does."""
        return self._results(lambda path: export_onnx(model, path), test[:1], test, int8=False)

    def int8(self, model: Model, calibration: np.ndarray, test: np.ndarray) -> Iterator[PeerResult]:
        """Quantize the network with these images in every mode, and run it."""
        return self._results(lambda path: export_onnx(model, path), calibration, test, int8=True)

    def own_file(self, quantized: QuantizedModel, test: np.ndarray, lstm: LstmForm = "qdq") -> Iterator[PeerResult]:
        """Run quantkit's INT8 network, as an ONNX file with this form of LSTM layers, in the peers' engines."""
        return self._results(lambda path: quantized.to_onnx(path, lstm=lstm), test[:1], test, int8=False)

    def _results(
        self, write: Callable[[Path], object], calibration: np.ndarray, test: np.ndarray, int8: bool
    ) -> Iterator[PeerResult]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder / "network.onnx")
            np.save(folder / "calibration.npy", calibration)
            np.save(folder / "test.npy", test)
            for each in self._modes:
                if each["int8"] == int8:
                    yield self._result(each["peer"], each["mode"], folder)

    def _result(self, peer: str, mode: str, folder: Path) -> PeerResult:
        out = folder / "outputs.npz"
        out.unlink(missing_ok=True)
        inputs = (folder / name for name in ("network.onnx", "calibration.npy", "test.npy"))
        # ONNX Runtime's quantizer leaves files in the current folder where it fails.
        done = self._call(PEERS_SCRIPT, mode, *inputs, out, folder=folder)
        if done.returncode != 0:
            return PeerResult(peer, mode, f"exit code {done.returncode}: {_last_line(done)}")
        with np.load(out) as found:
            outputs = tuple(found[f"output{number}"] for number in range(len(found.files) - 1))
            return PeerResult(peer, mode, outputs, float(found["seconds"]))

    def _call(self, *arguments: Any, folder: Optional[Path] = None) -> subprocess.CompletedProcess[str]:
        command = [str(self._python), "-I", *map(str, arguments)]
        return subprocess.run(dependent(command), cwd=folder, capture_output=True, text=True, check=False)


def write_rows_beside_peers(
    script: str,
    description: Optional[str],
    names: Sequence[str],
    rows: Callable[[str, Peers], Iterable[Any]],
    line: Callable[[Any], str],
    page: Callable[[Document], str],
) -> None:
    """Print the rows of the networks named on the command line, and write them if it asks for that.

    Args:
        script: the name of the script.
        description: what it measures.
        names: of all its networks.
        rows: the rows of a network, dataclasses.
        line: a row in the page's table.
        page: the page of a run's JSON.
    """
    parser = arguments(description)
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="the peers' interpreter, not .venv-peers")
    options = parser.parse_args()
    chosen = [name for name in names if not options.network or any(part in name for part in options.network)]
    peers, found = Peers(options.peers), []
    for row in (row for name in chosen for row in rows(name, peers)):
        found.append(row)
        print(line(row), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        figures = {"peers": peers.versions, "rows": [asdict(row) for row in found]}
        write_results(options.out, f"python benchmarks/{script}.py{parts}", host_facts(), figures, page)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines() or ["no message"]
    return lines[-1].strip()
