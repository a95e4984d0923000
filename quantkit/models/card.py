"""Model cards: descriptions of networks, one TOML file each.

A card names a GluonCV network (``network``) or the user's files (``symbol``, ``params``, in the card's folder or
below), describes how images become its input, and lists the sources of trained weights in the order in
which they are tried. The cards that ship with quantkit are in its ``models`` folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Optional, Union

from quantkit.data.boxes import BoxCorners
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, UserError
from quantkit.files.contained import file_in
from quantkit.files.files import shipped
from quantkit.files.text import read_toml
from quantkit.models.families import Task, family_of
from quantkit.models.layout import SequenceLayout

SourceKind = Literal["gluoncv", "huggingface", "url", "file"]


@dataclass(frozen=True)
class WeightSource:
    """One source of trained weights.

    ``location`` is, by ``kind``: the file's name in GluonCV's store (``gluoncv``), a repository and a file
    in it (``huggingface``: ``owner/repository/file``), an address (``url``), or a file in the card's folder
    (``file``). ``revision`` is the commit of the repository (``huggingface``); without it the newest is fetched.
    ``sha1``, ``sha256`` and ``size`` (in bytes) are those of the weights themselves, after unpacking; without a hash,
    the first file fetched is recorded, and later ones must equal it. ``preprocess`` is given if these weights need
    other preprocessing than the card's.
    """

    kind: SourceKind
    location: str
    revision: Optional[str] = None
    size: Optional[int] = None
    sha256: Optional[str] = None
    sha1: Optional[str] = None
    preprocess: Optional[Preprocess] = None


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of the trained weights in percent, as published or measured (``origin``).

    Of a language model ``top1`` is the share of next tokens predicted, and ``perplexity`` is that per token. ``map`` is
    a detector's mean average precision by VOC's rules, ``ap`` that by COCO's, of boxes or of a person's keypoints, and
    ``miou`` the mean intersection over union of a network that segments.
    """

    origin: str
    top1: Optional[float] = None
    top5: Optional[float] = None
    map: Optional[float] = None
    ap: Optional[float] = None
    miou: Optional[float] = None
    perplexity: Optional[float] = None


@dataclass(frozen=True)
class Card:
    """A network's description. ``input_shape`` is without the batch; ``layout`` is that of sequences in their files.

    ``task`` is what it is for, and ``family`` its architecture, as ``models.families`` names those of GluonCV.
    ``box_corners`` is what the corners of a detector's boxes are; None where neither the card nor the family says so.

    ``symbol`` and ``params`` are files in ``folder``. ``labels`` is ``imagenet1k``, ``cifar10``, a text file there with
    one name per line, or the names themselves. ``exclude`` lists node names or globs that should stay FP32. ``notes``
    say how the network differs from the one that was asked for.
    """

    name: str
    folder: Path
    input_shape: tuple[int, ...]
    classes: int
    network: Optional[str] = None
    task: Task = "classification"
    box_corners: Optional[BoxCorners] = None
    family: Optional[str] = None
    layout: Optional[SequenceLayout] = None
    symbol: Optional[str] = None
    params: Optional[str] = None
    aliases: tuple[str, ...] = ()
    description: str = ""
    preprocess: Optional[Preprocess] = None
    labels: Union[str, tuple[str, ...], None] = None
    sources: tuple[WeightSource, ...] = ()
    exclude: tuple[str, ...] = ()
    accuracy: Optional[Accuracy] = None
    notes: tuple[str, ...] = ()

    def file(self, name: str) -> Path:
        """The path of the file that the card calls ``name``, whether it exists or not.

        Raises:
            ModelError: it lies outside the card's folder, or is not an ordinary file.
        """
        try:
            return file_in(self.folder, name)
        except UserError as error:
            raise ModelError(f"model card {self.name!r}: {error}") from error


def read_card(path: Path) -> Card:
    """Read one card.

    Raises:
        ModelError: the file cannot be read, is not TOML, or has a key or value that cards do not have;
            the message names the file and the key.
    """
    try:
        document = read_toml(path)
    except OSError as error:
        raise ModelError(f"cannot read model card {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelError(f"model card {path} is not valid TOML: {error}") from error
    return _card(_validated(document, path), path.parent)


@cache
def cards() -> tuple[Card, ...]:
    """The cards that ship with quantkit, by file name."""
    return tuple(read_card(path) for path in sorted(shipped("models").glob("*.toml")))


def find_card(name: str) -> Optional[Card]:
    """The shipped card of that name or alias, in any case; None if there is none."""
    wanted = name.lower()
    exact = {card.name.lower(): card for card in cards()}
    aliases = {alias.lower(): card for card in cards() for alias in card.aliases}
    return exact.get(wanted) or aliases.get(wanted)


def preprocess_of(document: Any) -> Preprocess:
    """The preprocessing that a table of the form of a card's ``[preprocess]`` describes.

    Raises:
        ValueError: the table does not have that form.
    """
    from quantkit.models.card_schema import PreprocessTable

    return _preprocess(PreprocessTable.model_validate(document).model_dump())


def _validated(document: dict[str, Any], path: Path) -> dict[str, Any]:
    # Imported late: pydantic takes a tenth of a second to import.
    from pydantic import ValidationError

    from quantkit.models.card_schema import CardTable

    try:
        return CardTable.model_validate(document).model_dump()
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'the card'}: {problem['msg']}"
            for problem in error.errors()[:3]
        )
        raise ModelError(f"model card {path}: {problems}; the cards in {shipped('models')} are examples") from error


def _card(table: dict[str, Any], folder: Path) -> Card:
    family = None if table["network"] is None else family_of(table["network"])
    return Card(
        **{
            **table,
            "folder": folder,
            "family": table["family"] or (family.name if family else None),
            "box_corners": table["box_corners"] or (family.box_corners if family else None),
            "input_shape": tuple(table["input_shape"]),
            "aliases": tuple(table["aliases"]),
            "exclude": tuple(table["exclude"]),
            "labels": tuple(table["labels"]) if isinstance(table["labels"], list) else table["labels"],
            "preprocess": _preprocess(table["preprocess"]) if table["preprocess"] else None,
            "accuracy": Accuracy(**table["accuracy"]) if table["accuracy"] else None,
            "sources": tuple(
                WeightSource(
                    **{**source, "preprocess": _preprocess(source["preprocess"]) if source["preprocess"] else None}
                )
                for source in table["sources"]
            ),
        }
    )


def _preprocess(table: dict[str, Any]) -> Preprocess:
    return Preprocess(**{**table, "mean": tuple(table["mean"]), "std": tuple(table["std"])})
