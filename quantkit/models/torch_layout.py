"""Weights with PyTorch's names (torchvision's and timm's), renamed to gluon's.

The two have the same structure for the same architecture, but other names. Both list modules in order of
declaration: PyTorch's names are turned into paths of numbers that sort in that order, and modules are then
paired one by one. Every pair must agree in role (convolution or dense layer, normalisation), in its
parameters, and in their sizes, which exposes a wrong order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from quantkit.errors import ModelError

Arrays = Mapping[str, np.ndarray]

_ROLES = frozenset({"weight", "bias", "running_mean", "running_var", "num_batches_tracked"})
_TO_GLUON_NORM = {"weight": "gamma", "bias": "beta", "running_mean": "running_mean", "running_var": "running_var"}

# By a substring of the names: what to leave out, and the numbers of places that words stand for.
_FAMILIES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "denseblock",
        "",
        (
            (r"^features\.", ""),
            (r"^conv0", "0.0"),
            (r"^norm0", "0.1"),
            (r"^denseblock(\d+)\.denselayer", r"\1.0."),
            (r"^transition(\d+)", r"\1.1"),
            (r"\.norm(\d)$", r".\1.0"),
            (r"\.conv(\d)$", r".\1.1"),
            (r"\.norm$", ".0"),
            (r"\.conv$", ".1"),
            (r"^norm5", "5"),
            (r"^classifier", "6"),
        ),
    ),
    (
        "Mixed_",
        r"^AuxLogits\.",
        (
            (r"^Conv2d_(\d)([a-z])_\dx\d", r"\1.\2"),
            (r"^Mixed_(\d)([a-z])", r"\1.\2"),
            (r"branch1x1", "0"),
            (r"branch5x5", "1"),
            (r"branch3x3dbl", "3"),
            (r"branch3x3", "2"),
            (r"branch7x7dbl", "5"),
            (r"branch7x7x3", "6"),
            (r"branch7x7", "4"),
            (r"branch_pool", "7"),
            (r"_(\d)([a-z]?)", r".\1.\2"),
            (r"\bconv$", "0"),
            (r"\bbn$", "1"),
            (r"^fc", "9"),
        ),
    ),
    (
        "layer1.",
        "",
        (
            (r"^layer(\d)", r"1\1"),
            (r"\bconv(\d)", r"\1.0"),
            (r"\bbn(\d)", r"\1.1"),
            (r"\bdownsample", "9"),
            (r"^fc", "99"),
        ),
    ),
    (
        "features.",
        "",
        (
            (r"^features", "0"),
            (r"^pre_logits\.fc", "1."),
            (r"^(classifier|head\.fc|head)", "2"),
            (r"squeeze$", "0"),
            (r"expand(\d)x\d$", r"\1"),
        ),
    ),
)


def is_torch_layout(names: Iterable[str]) -> bool:
    """Whether all names end as PyTorch's do; those of gluon's networks without normalisation do, too."""
    return all("." in name and name.rsplit(".", 1)[1] in _ROLES for name in names)


def from_torch(sizes: Mapping[str, tuple[int, ...]], arrays: Arrays, where: str) -> dict[str, np.ndarray]:
    """Rename and reshape PyTorch's arrays.

    Args:
        sizes: the shapes of the network's parameters by gluon's structured names, in order of declaration.
        arrays: by PyTorch's names.
        where: the file they come from, for messages.

    Returns:
        Arrays by gluon's structured names.

    Raises:
        ModelError: the order of the architecture's modules is unknown, or the modules do not pair up.
    """
    theirs = _modules(name for name in arrays if not name.endswith("num_batches_tracked"))
    wanted = list(_modules(sizes).items())
    ordered = _in_order(theirs, where)
    result: dict[str, np.ndarray] = {}
    for (place, roles), name in zip(wanted, ordered):
        norm = "running_mean" in theirs[name]
        renamed = {_TO_GLUON_NORM[role] if norm else role: f"{name}.{role}" for role in theirs[name]}
        if set(renamed) != set(roles):
            raise _mismatch(where, f"{name} has {sorted(theirs[name])}, the network's {place} wants {sorted(roles)}")
        for role, full in renamed.items():
            array, shape = arrays[full], sizes[f"{place}.{role}"]
            # A dense layer may be stored as a convolution with as many values, and the other way round.
            if array.shape != shape and (
                array.size != np.prod(shape) or array.shape[:1] != shape[:1] or array.ndim == len(shape)
            ):
                raise _mismatch(where, f"{full} has shape {array.shape}, the network's {place}.{role} {shape}")
            result[f"{place}.{role}"] = array.reshape(shape)
    if len(wanted) != len(ordered):
        raise _mismatch(where, f"{len(ordered)} layers for the network's {len(wanted)}")
    return result


def _modules(names: Iterable[str]) -> dict[str, list[str]]:
    """The roles of each module's parameters, in the order of the names."""
    modules: dict[str, list[str]] = {}
    for name in names:
        module, _, role = name.rpartition(".")
        modules.setdefault(module, []).append(role)
    return modules


def _in_order(modules: Iterable[str], where: str) -> list[str]:
    names = list(modules)
    family = next((family for family in _FAMILIES if any(family[0] in name + "." for name in names)), None)
    if family is None:
        raise _mismatch(where, f"the architecture of {names[:1]} is not known")
    _, left_out, rules = family
    places: dict[tuple[int, ...], str] = {}
    for name in names:
        if left_out and re.search(left_out, name):
            continue
        path = name
        for pattern, replacement in rules:
            path = re.sub(pattern, replacement, path)
        parts = [part for part in path.split(".") if part]
        if not all(re.fullmatch(r"\d{1,9}|[a-z]", part) for part in parts):
            raise _mismatch(where, f"the place of {name!r} is not known")
        place = tuple(int(part) if part.isdigit() else ord(part) for part in parts)
        if place in places:
            raise _mismatch(where, f"{name!r} and {places[place]!r} have one place")
        places[place] = name
    return [places[place] for place in sorted(places)]


def _mismatch(where: str, problem: str) -> ModelError:
    return ModelError(
        f"{where}: PyTorch's weights do not pair up with the network ({problem}); give weights of the same architecture"
    )
