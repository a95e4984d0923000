"""Quantize a network with LSTM layers, verify it in engines, and compare files with other weights; print the verdicts.

lstm_run FOLDER ENGINE...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import quantkit
from quantkit.backends.registry import DEPLOYED, ONNX_ENGINES
from quantkit.bundle.export import int8_onnx
from quantkit.bundle.read import read_bundle
from quantkit.diagnosis.parity.layers import layer_parity
from quantkit.diagnosis.parity.onnx_file import parse
from quantkit.diagnosis.parity.verify import verify_in_engines
from quantkit.lowering.onnx_lstm import LstmForm
from tests.diagnosis.parity.changed_file import with_changed

CARD = Path(__file__).parents[3] / "models" / "digits_lstm.toml"

FORMS: dict[str, LstmForm] = {"onnxruntime": "dynamic"}


def main(folder: str, *engines: str) -> None:
    data = np.random.default_rng(3).random((24, 8, 8), np.float32)
    config = quantkit.QuantizationConfig(num_samples=16, preset="none")
    directory = quantkit.quantize(quantkit.load_model(CARD), data, config).save(folder, formats=("mxnet", "onnx"))
    told: list[str] = []
    verification = verify_in_engines(directory, engines, data, layers=True, tell=told.append)
    bundle, wrong, deployed = read_bundle(directory), {}, {}
    for engine in engines:
        form = FORMS.get(engine, "qdq")
        content = int8_onnx(bundle.model, bundle.network, bundle.manifest.settings, lstm=form)
        if engine in DEPLOYED:
            session = ONNX_ENGINES[engine].backend().open_session(content)
            expected = session.run({session.inputs[0]: data[:1]})[0]
            deployed[engine] = bool((quantkit.load(directory, engine=engine).predict(data[:1]) == expected).all())
        file = parse(content)
        name = next(each.name for each in file.model.graph.initializer if "fused_0_lstm_recurrence" in each.name)
        changed = with_changed(file, name, lambda weight: np.roll(weight, 1, axis=-1))
        layers = layer_parity(bundle.network, changed, ONNX_ENGINES[engine], data)
        wrong[engine] = [layer.tensor for layer in layers if not layer.ok]
    checks = [[check.name, check.ok, check.why] for check in verification.checks]
    print(json.dumps({"told": told, "checks": checks, "wrong": wrong, "deployed": deployed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
