"""What the user wants left in FP32, said in the names that the user knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain

from quantkit.errors import UserError
from quantkit.fusion.fuse import Fused
from quantkit.ir.aliases import canonical
from quantkit.ir.recurrent_layer import reported_name


def excluded_nodes(fused: Fused, patterns: Sequence[str]) -> Mapping[str, str]:
    """The fused nodes that a pattern names, each with the first pattern that does.

    A pattern is an original node name, a glob over these names, or an operator type such as ``Pooling``, by any of
    MXNet's names for it; recurrent layers have those of reports as well, such as ``LSTM``. A fused layer is named by
    each of the operators that it stands for; by type, by the first of them.

    Raises:
        UserError: a pattern matches nothing; the nearest names are offered.
    """
    types = {node.name: {node.op, reported_name(node) or node.op} for node in fused.original.nodes}
    excluded: dict[str, str] = {}
    for pattern in patterns:
        matched = [
            node.name
            for node in fused.graph.nodes
            if canonical(pattern, {})[0] in {*types.get(next(iter(node.origin), node.name), ()), reported_name(node)}
            or any(fnmatchcase(name, pattern) for name in (node.name, *node.origin))
        ]
        if not matched:
            known = sorted({*types, *chain(*types.values())})
            nearest = ", ".join(get_close_matches(pattern, known, 4, 0.4))
            remedy = f"nearest: {nearest}" if nearest else "`quantkit explain` lists the names"
            raise UserError(f"the exclusion {pattern!r} matches no node or operator type; {remedy}")
        for name in matched:
            excluded.setdefault(name, pattern)
    return excluded
