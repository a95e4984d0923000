"""What other quantizers are asked in the words of their own functions; they run in an environment of their own."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from quantkit.benchmark.workers import peers
from tests.requirements import requires


def _words(function: str) -> set[str]:
    """The keywords in the call of a function."""
    tree = ast.parse(Path(peers.__file__).read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == function]
    (call,) = calls
    return {str(keyword.arg) for keyword in call.keywords}


def test_onnx_runtime_knows_the_words() -> None:
    requires("onnx", "onnxruntime")
    from onnxruntime.quantization import quantize_static

    words = _words("quantize_static")
    assert words and words <= set(inspect.signature(quantize_static).parameters)
