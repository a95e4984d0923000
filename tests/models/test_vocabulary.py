"""Which networks read token ids."""

from __future__ import annotations

import pytest

from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph
from quantkit.models.vocabulary import vocabulary_of
from tests.networks import DATA, Builder
from tests.sequences import sequence_network


def graph(b: Builder) -> Graph:
    return b.graph(b.nodes[-1].output)


def with_embeddings(*sizes: int) -> Builder:
    b = Builder()
    moved = b.op("SwapAxis", "swap", DATA, dim1=0, dim2=1)
    for size in sizes:
        table = b.param(f"table{size}", b.random.normal(size=(size, 3)))
        b.op("Embedding", f"embedding{size}", moved, table, input_dim=size, output_dim=3)
    return b


def test_what_only_embeddings_read_are_tokens() -> None:
    assert vocabulary_of(sequence_network("NT"), "data") == Vocabulary("embedding", 11)
    assert vocabulary_of(sequence_network("NTC"), "data") is None


def test_the_smallest_of_several_vocabularies_holds() -> None:
    assert vocabulary_of(graph(with_embeddings(9, 7, 8)), "data") == Vocabulary("embedding7", 7)


def test_what_anything_else_reads_are_no_tokens() -> None:
    b = with_embeddings(9)
    b.op("mean", "mean", DATA)
    assert vocabulary_of(graph(b), "data") is None


def test_a_vocabulary_without_a_size_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'embedding0' \(Embedding\) does not say its vocabulary's size"):
        vocabulary_of(graph(with_embeddings(0)), "data")
