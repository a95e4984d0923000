"""A text for language models that ships inside a dependency: NumPy's documentation, about a million characters.

The documents are the longer strings in NumPy's Python files, which are the descriptions of its functions, in the order
of the files' names and their places therein. NumPy is under the BSD licence; the extras with MXNet pin its version, so
that the text is the same wherever MXNet runs.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ALPHABET = "\n" + "".join(map(chr, range(ord(" "), ord("~") + 1)))
VOCABULARY = 1 + len(ALPHABET)
"""Id 0 stands for every character that is not in ``ALPHABET``."""

# The descriptions of other packages repeat each other (polynomial), or hold templates of C (f2py).
_PACKAGES = ("core", "fft", "lib", "linalg", "ma", "matrixlib")
_SHORTEST = 400
_TEST_EVERY = 10
_PARAGRAPH = "\n\n"


@dataclass(frozen=True)
class Text:
    """Characters to train on, and characters of other documents to test on."""

    train: str
    test: str


def numpy_text() -> Text:
    """NumPy's documentation: every tenth document is held out for the test.

    Paragraphs that the documents held out share with others are not trained on.
    """
    documents = _documents()
    test = documents[::_TEST_EVERY]
    held_out = {paragraph for document in test for paragraph in document.split(_PARAGRAPH)}
    train = (
        _PARAGRAPH.join(paragraph for paragraph in document.split(_PARAGRAPH) if paragraph not in held_out)
        for number, document in enumerate(documents)
        if number % _TEST_EVERY
    )
    return Text(_joined(list(train)), _joined(test))


def encoded(text: str) -> NDArray[np.int64]:
    """The id of every character, int64: 1 + its place in ``ALPHABET``, or 0."""
    ids = {character: number for number, character in enumerate(ALPHABET, start=1)}
    return np.array([ids.get(character, 0) for character in text], np.int64)


def windows(ids: NDArray[np.int64], steps: int, offset: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut a text into windows that do not overlap, from ``offset`` on.

    Args:
        ids: the text, int64 of shape (characters,).
        steps: the length of a window.
        offset: where the first window begins.

    Returns:
        the windows, int64 of shape (windows, steps), and of each character the one that follows, of the same shape;
        what remains at the end is left out.
    """
    count = (len(ids) - offset - 1) // steps
    first, following = (ids[start : start + count * steps] for start in (offset, offset + 1))
    return first.reshape(count, steps), following.reshape(count, steps)


def _documents() -> list[str]:
    """The longer strings of NumPy's files, without those that equal an earlier one."""
    root = Path(np.__file__).parent
    files = sorted(file for package in _PACKAGES for file in (root / package).rglob("*.py"))
    return list(dict.fromkeys(text for file in files if "tests" not in file.parts for text in _strings(file)))


def _strings(file: Path) -> Iterator[str]:
    nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Constant)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node.value, str) and len(node.value) >= _SHORTEST:
            yield inspect.cleandoc(node.value)


def _joined(documents: Sequence[str]) -> str:
    return _PARAGRAPH.join(filter(None, documents)) + "\n"
