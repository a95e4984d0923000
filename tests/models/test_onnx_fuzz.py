"""Damaged ONNX files, by the thousand: each is imported, or refused with an error of quantkit's; no process dies.

``QUANTKIT_FUZZ_SECONDS`` has it go on for longer, ``QUANTKIT_FUZZ_SEED`` elsewhere.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

SECONDS = float(os.environ.get("QUANTKIT_FUZZ_SECONDS", "6"))
SEED = int(os.environ.get("QUANTKIT_FUZZ_SEED", "0"))

# Seconds that no small file may take, on a busy machine.
_SLOW = 10.0

# Tensors of networks that are run as well.
_MOST_VALUES = 100_000

# What a mutation may put in place of a number.
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 1_000_003, 2**16, 2**31, 2**40, 2**63 - 1)


@pytest.mark.timing
def test_damaged_files(engine: None) -> None:
    """In a process of its own: the engine's native code could end it."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.test_onnx_fuzz", str(SEED), str(SECONDS)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-3000:]} {done.stderr[-3000:]}"


def main(seed: int, seconds: float) -> int:
    """Damage files until the time is over; the number of those that ended otherwise than they may."""
    import onnx

    from quantkit.backends.mxnet.compat import load_mxnet
    from tests.formats.onnx.reading.test_styles import STYLES
    from tests.sound_onnx import onnx_attending, onnx_recurrent

    load_mxnet()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 3 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    random = Random(seed)
    networks = [*(build().SerializeToString() for build in STYLES.values()), onnx_recurrent(), onnx_attending()]
    counts: Counter[str] = Counter()
    began, slowest = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        while time.monotonic() - began < seconds:
            mutate = random.choice((flip, cut, restructure, restructure, restructure))
            try:
                content = mutate(random, random.choice(networks), onnx)
            except (ValueError, TypeError, UnicodeDecodeError):
                # The library itself does not write it.
                continue
            path.write_bytes(content)
            start = time.monotonic()
            counts[outcome(path)] += 1
            slowest = max(slowest, time.monotonic() - start)
            if counts["failed"] or slowest > _SLOW:
                kept = Path(tempfile.gettempdir()) / f"quantkit-fuzz-{seed}.onnx"
                kept.write_bytes(content)
                print(f"kept as {kept}")
                break
    print(f"{sum(counts.values())} files: {dict(counts)}; the slowest took {slowest:.2f} s")
    return counts["failed"] + int(slowest > _SLOW)


def outcome(path: Path) -> str:
    """What becomes of a file: it is imported, its shapes are known, and it runs, as far as it is small; or refused."""
    from quantkit.backends.mxnet.execute import run
    from quantkit.backends.mxnet.shapes import infer_shapes
    from quantkit.errors import UserError
    from quantkit.models.load import load_model

    try:
        model = load_model(path)
        shapes = infer_shapes(model.graph, {model.graph.inputs[0]: (2, *model.input_shape)})
        if any(shapes[tensor][0] != 2 for tensor in model.graph.outputs):
            raise AssertionError(f"the outputs have the shapes {[shapes[tensor] for tensor in model.graph.outputs]}")
        if max(map(prod, shapes.values())) < _MOST_VALUES:
            run(model.graph, {model.graph.inputs[0]: np.zeros((2, *model.input_shape), np.float32)})
    except UserError:
        return "refused"
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return "failed"
    return "imported"


def flip(random: Random, content: bytes, onnx: Any) -> bytes:
    """Other bytes in a few places, most of them among the names and shapes at the front or the end."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def cut(random: Random, content: bytes, onnx: Any) -> bytes:
    """The front of a file, or one with a piece missing."""
    start, end = sorted(random.sample(range(len(content)), 2))
    return content[:start] + (b"" if random.random() < 0.5 else content[end:])


def restructure(random: Random, content: bytes, onnx: Any) -> bytes:
    """A file that can be parsed, and says something else."""
    model = onnx.ModelProto.FromString(content)
    for _ in range(random.randint(1, 3)):
        random.choice(CHANGES)(random, model)
    written: bytes = model.SerializeToString()
    return written


def _node(random: Random, model: Any) -> Any:
    return random.choice(model.graph.node)


def _weight_extent(random: Random, model: Any) -> None:
    tensor = random.choice(model.graph.initializer)
    if tensor.dims:
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(NUMBERS)


def _weight_shape(random: Random, model: Any) -> None:
    tensor = random.choice(model.graph.initializer)
    extents = list(tensor.dims)
    random.shuffle(extents)
    tensor.dims[:] = random.choice((extents, [*extents, 1], [1, *extents], extents[1:]))


def _weight_values(random: Random, model: Any) -> None:
    """Shapes, axes and limits are weights, too."""
    tensor = random.choice(model.graph.initializer)
    if tensor.data_type == 7 and tensor.raw_data:
        place = 8 * random.randrange(len(tensor.raw_data) // 8)
        value = random.choice(NUMBERS).to_bytes(8, "little", signed=True)
        tensor.raw_data = tensor.raw_data[:place] + value + tensor.raw_data[place + 8 :]


def _weight_type(random: Random, model: Any) -> None:
    random.choice(model.graph.initializer).data_type = random.randrange(24)


def _input_extent(random: Random, model: Any) -> None:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    random.choice(dims).dim_value = random.choice((*NUMBERS, 5, 12, 17))


def _attribute(random: Random, model: Any) -> None:
    node = _node(random, model)
    if not node.attribute:
        return
    attribute = random.choice(node.attribute)
    if attribute.ints:
        attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)
    elif attribute.type == 1:
        attribute.f = random.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
    else:
        attribute.i = random.choice(NUMBERS)


def _attribute_length(random: Random, model: Any) -> None:
    node = _node(random, model)
    for attribute in node.attribute:
        if attribute.ints:
            attribute.ints[:] = random.choice((attribute.ints[1:], [*attribute.ints, 1], [2] * 6))


def _attribute_type(random: Random, model: Any) -> None:
    node = _node(random, model)
    if node.attribute:
        random.choice(node.attribute).type = random.randrange(15)


def _attribute_gone(random: Random, model: Any) -> None:
    node = _node(random, model)
    if node.attribute:
        del node.attribute[random.randrange(len(node.attribute))]


def _attribute_elsewhere(random: Random, model: Any) -> None:
    one, other = _node(random, model), _node(random, model)
    other.attribute.extend(list(one.attribute))


def _operator(random: Random, model: Any) -> None:
    from quantkit.formats.onnx.reading.conversion import CONVERTERS
    from quantkit.formats.onnx.reading.folds import FOLDS

    _node(random, model).op_type = random.choice(sorted({*CONVERTERS, *FOLDS, "If", "Shape"}))


def _name(random: Random, model: Any) -> None:
    _node(random, model).name = random.choice(("", "x", "c0", _node(random, model).name))


def _input_gone(random: Random, model: Any) -> None:
    node = _node(random, model)
    if node.input:
        place = random.randrange(len(node.input))
        if random.random() < 0.5:
            node.input[place] = ""
        else:
            del node.input[place]


def _input_other(random: Random, model: Any) -> None:
    node = _node(random, model)
    names = [name for each in model.graph.node for name in (*each.input, *each.output)]
    if node.input:
        node.input[random.randrange(len(node.input))] = random.choice(names)


def _input_more(random: Random, model: Any) -> None:
    names = [name for each in model.graph.node for name in (*each.input, *each.output)]
    _node(random, model).input.append(random.choice(names))


def _output(random: Random, model: Any) -> None:
    names = [name for each in model.graph.node for name in each.output]
    model.graph.output[0].name = random.choice((*names, "x"))


def _order(random: Random, model: Any) -> None:
    one, other = random.sample(range(len(model.graph.node)), 2)
    nodes = list(model.graph.node)
    nodes[one], nodes[other] = nodes[other], nodes[one]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _opset(random: Random, model: Any) -> None:
    model.opset_import[0].version = random.choice((*NUMBERS, 6, 8, 9, 11, 13, 18, 21, 24))


CHANGES: tuple[Callable[[Random, Any], None], ...] = (
    _weight_extent, _weight_shape, _weight_values, _weight_values, _weight_type, _input_extent, _attribute, _attribute,
    _attribute_length, _attribute_type, _attribute_gone, _attribute_elsewhere, _operator, _operator, _name, _input_gone,
    _input_other, _input_other, _input_more, _output, _order, _opset,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
