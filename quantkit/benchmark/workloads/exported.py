"""The forms of a network for engines other than MXNet: ONNX files, and those that other quantizers make of these."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from quantkit.benchmark.builds.environments import open_build
from quantkit.benchmark.builds.foreign import ending, foreign_environment, last_lines, running
from quantkit.benchmark.builds.recipes import PEERS, PEERS_SCRIPT, RECIPES
from quantkit.benchmark.workloads.network import Checkpoint
from quantkit.benchmark.workloads.store import stored_array, stored_files
from quantkit.bundle.export import export_int8_onnx, export_onnx
from quantkit.data.sample_noun import sample_noun
from quantkit.errors import PeerError, UserError
from quantkit.files.code import code_hash
from quantkit.files.contained import file_in
from quantkit.files.files import sha256_of
from quantkit.files.folders import scratch_folder
from quantkit.files.text import parse_json
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.models.model import Model
from quantkit.progress import Tell
from quantkit.units import counted

# The modes of PEERS_SCRIPT that make these forms.
MODES: Mapping[str, str] = {
    "onnxruntime-ptq": "ONNX Runtime MinMax",
    "onnxruntime-dynamic": "ONNX Runtime dynamic",
    "nncf": "NNCF performance (default)",
}

INT8_FORMS: Mapping[str, LstmForm] = {"onnx-int8": "qdq", "onnx-int8-dynamic": "dynamic"}
"""The forms that are quantkit's INT8 ONNX files, and how they hold INT8 LSTM layers."""

_ONNX = "network.onnx"

# The packages that decide what an ONNX file holds.
_MAKERS = ("ir", "formats", "fusion", "quantization", "lowering", "bundle/export")


def fp32_file(model: Model, key: str, tell: Tell) -> Checkpoint:
    """The network as it was loaded, as an ONNX file; see ``export_onnx``."""

    def make(folder: Path) -> Mapping[str, Path]:
        tell(f"{model.name}: writing ONNX")
        export_onnx(model, folder / _ONNX)
        return {"onnx": folder / _ONNX}

    return stored_files(f"{model.name}-onnx", _with_code(key), make, tell)


def int8_file(form: str, name: str, key: str, bundle: Callable[[Path], Path], tell: Tell) -> Checkpoint:
    """The INT8 network as an ONNX file, in one of ``INT8_FORMS``; see ``export_int8_onnx``.

    ``bundle`` returns the folder of its bundle; it may write it into the folder that it is given.
    """

    def make(folder: Path) -> Mapping[str, Path]:
        with scratch_folder() as scratch:
            directory = bundle(scratch)
            tell(f"{name}: writing INT8 ONNX")
            export_int8_onnx(directory, folder / _ONNX, lstm=INT8_FORMS[form])
        return {"onnx": folder / _ONNX}

    return stored_files(f"{name}-{form}", _with_code(key), make, tell)


def _with_code(key: str) -> str:
    """A key that includes the code, so that a change of the code makes the files again."""
    return hashlib.sha256(f"{key} {code_hash(*_MAKERS)}".encode()).hexdigest()


def quantized_by_peer(form: str, name: str, fp32: Checkpoint, images: np.ndarray, tell: Tell) -> Checkpoint:
    """The network that another quantizer makes of an ONNX file with these images, in a separate environment.

    Raises:
        PeerError: the quantizer failed.
        QuantkitError: there is no such environment and it cannot be made.
    """
    mode, calibration = MODES[form], stored_array(images)
    made_from = (mode, RECIPES[PEERS].wanted, sha256_of(PEERS_SCRIPT), fp32.sha256["onnx"], calibration.name)

    def make(folder: Path) -> Mapping[str, Path]:
        python = open_build(PEERS, tell).python
        tell(f"{name}: quantizing with {mode}, {counted(len(images), sample_noun(images.shape[1:]))}")
        command = [
            python,
            "-I",
            str(PEERS_SCRIPT),
            "quantize",
            mode,
            *map(str, (fp32.files["onnx"], calibration, folder)),
        ]
        with running(command, foreign_environment()) as process:
            out, err = process.communicate()
        if process.returncode != 0:
            raise PeerError(f"{mode} {ending(process.returncode)} on {name}:{last_lines(err)}")
        try:
            answer = parse_json(out.splitlines()[-1])
            made = {str(role): file_in(folder, str(file)) for role, file in answer.items()}
            if not made or not all(path.is_file() for path in made.values()):
                raise ValueError("a file is missing")
            return made
        except (ValueError, LookupError, AttributeError, UserError) as error:
            raise PeerError(f"{mode} made of {name} what is no network: it answered {out[-80:]!r}") from error

    return stored_files(f"{name}-{form}", hashlib.sha256(repr(made_from).encode()).hexdigest(), make, tell)
