"""Runs cases of the crash search one after the other and notes each outcome, in a process that may end any time.

    python -m tests.backends.mxnet.crash_search.child CASES FIRST NOTES GIBIBYTES

CASES is a pickled list, FIRST the number of the case to begin with. NOTES gets a line when a case begins and one
when it has ended.
"""

from __future__ import annotations

import pickle
import re
import resource
import sys
from pathlib import Path

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import QuantkitError
from quantkit.formats.mxnet import nnvm
from tests.backends.mxnet.crash_search.network_cases import NetworkCase
from tests.backends.mxnet.crash_search.operator_cases import Case

_MOST_VALUES = 1 << 24


def main(cases: str, first: str, notes: str, gibibytes: str) -> None:
    """Run the cases."""
    limit = int(gibibytes) << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    load_mxnet()
    found = pickle.loads(Path(cases).read_bytes())
    with open(notes, "a", buffering=1) as file:
        for number in range(int(first), len(found)):
            file.write(f"{number} begins\n")
            file.write(f"{number} {_outcome(found[number])} {_peak()}\n")
        file.write("end\n")


def _peak() -> int:
    """The largest RSS of this process so far, in MiB; ``ru_maxrss`` would include its parent's at the fork."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) >> 10


def _outcome(case: Case | NetworkCase) -> str:
    try:
        return _run_network(case) if isinstance(case, NetworkCase) else _run_operator(case)
    except QuantkitError as error:
        return f"refused {type(error).__name__}"
    except Exception as error:
        return f"RAW {type(error).__name__}"


def _run_operator(case: Case) -> str:
    graph = nnvm.parse(case.symbol(), {})
    shapes = {f"i{each}": shape for each, shape in enumerate(case.shapes[: case.inputs])}
    missing = [name for name in graph.inputs if name not in shapes]
    if missing:
        symbol = symbol_of(graph)
        try:
            arguments, _, states = symbol.infer_shape_partial(**shapes)
        except Exception:
            return "without shapes"
        names = symbol.list_arguments() + symbol.list_auxiliary_states()
        shapes.update((name, shape) for name, shape in zip(names, (*arguments, *states)) if name in missing and shape)
    if shapes.keys() != set(graph.inputs) or sum(int(np.prod(each)) for each in shapes.values()) > _MOST_VALUES:
        return "without shapes"
    types = [case.types[min(each, len(case.types) - 1)] for each in range(case.inputs)]
    values = {f"i{each}": _filled(shapes[f"i{each}"], case.fill, types[each]) for each in range(case.inputs)}
    read = {"i0": values["i0"]} if values and types[0] == "float32" else {}
    graph = nnvm.parse(case.symbol(), {name: value for name, value in values.items() if name not in read})
    infer_shapes(graph, {name: value.shape for name, value in read.items()})
    MxnetSession(graph, {name: value.shape for name, value in read.items()}).run(read)
    return "ran"


def _run_network(case: NetworkCase) -> str:
    graph = nnvm.parse(case.symbol, case.params)
    shape = (1, *case.input_shape)
    values = dict.fromkeys(graph.inputs, _filled(shape, case.fill, "float32"))
    infer_shapes(graph, dict.fromkeys(graph.inputs, shape))
    MxnetSession(graph, dict.fromkeys(graph.inputs, shape)).run(values)
    return "ran"


def _filled(shape: tuple[int, ...], fill: str, dtype: str) -> np.ndarray:
    constant = {"huge": 1e9, "negative": -1e9, "nan": np.nan}
    with np.errstate(all="ignore"):
        ramp = np.arange(int(np.prod(shape))).reshape(shape) % 3
        return np.full(shape, constant[fill], np.float32).astype(dtype) if fill in constant else ramp.astype(dtype)


if __name__ == "__main__":
    main(*sys.argv[1:])
