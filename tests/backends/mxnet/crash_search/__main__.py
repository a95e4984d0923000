"""The whole search, for both kinds of cases.

python -m tests.backends.mxnet.crash_search [COMBINATIONS OF EACH OPERATOR] [DAMAGED COPIES OF EACH NETWORK] [SEED]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.backends.mxnet.crash_search.network_cases import damaged
from tests.backends.mxnet.crash_search.networks import networks
from tests.backends.mxnet.crash_search.operator_cases import Case, cases
from tests.backends.mxnet.crash_search.search import AnyCase, search


def main(combined: str = "40", copies: str = "400", seed: str = "1") -> None:
    """Search, and exit with 1 where something was found."""
    everything = [*cases(int(seed), int(combined))]
    print(f"{len(everything)} operators", flush=True)
    failed = False
    kinds = {"operators": everything}
    if int(copies):
        for name, graph, shape in networks():
            kinds[name] = [*damaged(graph, shape, int(seed), int(copies))]
    for name, several in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            found = search(several, Path(folder), tell=_tell)
        print(f"{name}: {len(several)} cases, at most {found.mebibytes} MiB, {dict(found.outcomes)}", flush=True)
        failed |= bool(found.bad)
    sys.exit(int(failed))


def _tell(ending: str, case: AnyCase) -> None:
    print("   ", ending, case if isinstance(case, Case) else case.damage, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
