"""Quantize the character model with its states as inputs, run a text in pieces in engines, and print what they compute.

    step_run FOLDER ENGINE...

The whole text at once is computed by MXNet, in INT8 from the same bundle, and in FP32.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.bundle.read import read_bundle
from quantkit.diagnosis.parity.verify import verify_in_engines
from quantkit.evaluation.perplexity import cross_entropies

SCRIPTS = Path(__file__).parents[2] / "models"
PIECE, PIECES, SEQUENCES = 10, 10, 24


def text(split: str, sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of characters, int64 (sequences, steps), and the characters that follow."""
    sys.path.insert(0, str(SCRIPTS))
    from numpy_text import encoded, numpy_text, windows

    inputs, targets = windows(encoded(getattr(numpy_text(), split)), PIECE * PIECES)
    return inputs[:sequences], targets[:sequences]


def in_pieces(predictor: quantkit.Predictor, inputs: np.ndarray) -> np.ndarray:
    scores, states = [], None
    for piece in np.split(inputs, PIECES, axis=1):
        result, states = predictor.step(piece, states)
        scores.append(result)
    return np.concatenate(scores, axis=1)


def perplexity(scores: np.ndarray, targets: np.ndarray) -> float:
    return float(np.exp(cross_entropies(scores, targets, "logits").mean()))


def main(folder: str, *engines: str) -> None:
    model = quantkit.load_model("char_lm", input_shape=(PIECE,), states="inputs")
    seen, _ = text("train", 16)
    pieces = seen.reshape(-1, PIECE)
    config = quantkit.QuantizationConfig(num_samples=len(pieces), preset="none")
    quantized = quantkit.quantize(model, pieces, config)
    directory = quantized.save(folder, formats=("mxnet", "onnx"))
    bundle, (inputs, targets) = read_bundle(directory), text("test", SEQUENCES)
    whole = run(bundle.graph, {"data": inputs.astype(np.float32)})[0].reshape(*inputs.shape, -1)
    (exact, *_) = run(quantkit.load_model("char_lm").graph, {"data": inputs.astype(np.float32)})
    told = {}
    for engine in ("mxnet", *engines):
        predictor = quantkit.load(directory, engine=engine)
        scores = in_pieces(predictor, inputs)
        one, _ = predictor.step(inputs[0, :PIECE])
        told[engine] = {
            "perplexity": perplexity(scores, targets),
            "largest_difference": float(np.abs(scores - whole).max()),
            "begins_as_predict": bool(np.array_equal(one, predictor.predict(inputs[0, :PIECE]))),
        }
    manifest = bundle.manifest
    verification = verify_in_engines(directory, engines, pieces[:32], layers=True)
    result = {
        "engines": told,
        "whole": perplexity(whole, targets),
        "exact": perplexity(exact, targets),
        "forgetting": perplexity(predictor.predict(inputs.reshape(-1, PIECE)).reshape(whole.shape), targets),
        "int8": len(bundle.network.int8_lstms),
        "version": manifest.version,
        "states": [[state.input, state.output, list(state.shape)] for state in manifest.states],
        "outputs": [output.name for output in manifest.outputs],
        "notes": list(manifest.notes),
        "checks": [[check.name, check.ok, check.why] for check in verification.checks],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
