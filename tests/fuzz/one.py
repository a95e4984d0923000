"""Fuzz one target: ``python -m tests.fuzz.one TARGET FOLDER [libFuzzer's options and folders]``.

The file to read lies in FOLDER. A finding is a crash, an exception that is not quantkit's, more memory or more time
than the options allow. Images may have a million pixels: larger ones would take most of the time.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import atheris

# What reads the bytes, as far as it is Python.
READERS = [
    "quantkit", "zipfile", "numpy.lib.format", "PIL", "json", "tomllib", "csv", "ast", "tokenize", "xml",
]  # fmt: skip

with atheris.instrument_imports(include=READERS):
    from quantkit.data.decode import PIXELS_VARIABLE
    from quantkit.errors import QuantkitError
    from tests.fuzz.mutators import mutated
    from tests.fuzz.targets import TARGETS
    from tests.loaders import placed


def main() -> None:
    """Run until libFuzzer ends the process."""
    target = TARGETS[sys.argv[1]]
    warnings.simplefilter("ignore")
    os.environ[PIXELS_VARIABLE] = str(2**20)
    path = placed(target.loaders[0], Path(sys.argv[2]), target.seeds[0])
    loads = dict.fromkeys(loader.load for loader in target.loaders)

    def one(content: bytes) -> None:
        for load in loads:
            path.write_bytes(content)
            with suppress(QuantkitError):
                load(path)

    def mutate(content: bytes, most: int, seed: int) -> bytes:
        return mutated(target.mutator, content, seed, lambda part: atheris.Mutate(part, max(len(part) + 64, 16)))[:most]

    with atheris.instrument_imports(include=READERS):
        # The loaders import what they need when they first run.
        for seed in target.seeds:
            one(seed)
    atheris.Setup([f"fuzz-{target.name}", *sys.argv[3:]], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
