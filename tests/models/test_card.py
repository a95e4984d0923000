"""Model cards: the shipped ones and the errors of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.backends.mxnet.zoo import zoo_names, zoo_source
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError
from quantkit.models.card import cards, find_card, read_card

OWN = """
name = "mine"
symbol = "mine-symbol.json"
params = "mine-0000.params"
input_shape = [3, 8, 8]
classes = 2
labels = ["cat", "dog"]
exclude = ["*_dense0"]

[preprocess]
scale = 127.5
mean = [1, 1.0, 1.0]
std = [1.0, 1.0, 1.0]
rotate180 = true
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_names_and_aliases_lead_to_one_card_each() -> None:
    names = [name.lower() for card in cards() for name in (card.name, *card.aliases)]
    assert len(names) == len(set(names))
    assert all(find_card(name) is not None for name in names)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("resnet50", "resnet50_v1"),
        ("ResNet152_v2", "resnet152_v2"),
        ("inception_v3", "inceptionv3"),
        ("vgg16", "vgg16"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    card = find_card(alias)
    assert card is not None
    assert card.name == name


def test_unknown_names_have_no_card() -> None:
    assert find_card("resnet51") is None


def test_shipped_cards_name_networks_of_gluoncv_and_its_published_weights() -> None:
    for card in cards():
        # Inception-BN is quantkit's own, and nobody publishes weights for it.
        if card.network in (None, "inception_bn"):
            continue
        assert card.network in zoo_names()
        first = card.sources[0]
        assert first.kind == "gluoncv"
        assert (first.location, first.sha1) == zoo_source(card.network)


def test_shipped_sources_have_a_hash_but_for_those_of_which_none_is_published() -> None:
    without = {source.location for card in cards() for source in card.sources if not (source.sha256 or source.sha1)}
    names = [f"resnet{depth}.gluon_in1k" for depth in (18, 34, 50, 101, 152)] + [
        "resnet101.tv_in1k",
        "resnet152.tv_in1k",
    ]
    assert without == {f"timm/{name}/model.safetensors" for name in names}


def test_shipped_preprocessing_yields_the_input() -> None:
    for card in cards():
        for preprocess in (card.preprocess, *(source.preprocess for source in card.sources)):
            if preprocess is not None and preprocess.crop is not None:
                assert card.input_shape == (3, preprocess.crop, preprocess.crop)


def test_own_card(tmp_path: Path) -> None:
    card = read_card(written(tmp_path, OWN))
    assert card.preprocess == Preprocess(None, None, (1, 1, 1), (1, 1, 1), scale=127.5, rotate180=True)
    assert (card.symbol, card.params, card.folder) == ("mine-symbol.json", "mine-0000.params", tmp_path)
    assert (card.labels, card.exclude, card.input_shape) == (("cat", "dog"), ("*_dense0",), (3, 8, 8))


def test_boxes_have_the_corners_of_the_card_or_else_of_the_family(tmp_path: Path) -> None:
    said = 'box_corners = "{}"\nclasses = 2'
    assert read_card(written(tmp_path, OWN)).box_corners is None
    assert read_card(written(tmp_path, OWN.replace("classes = 2", said.format("pixels")))).box_corners == "pixels"
    own = 'symbol = "mine-symbol.json"\nparams = "mine-0000.params"'
    for network, corners in (("ssd_512_resnet50_v1_custom", "pixels"), ("mask_rcnn_resnet50_v1b_coco", "edges")):
        text = OWN.replace(own, f'network = "{network}"')
        assert read_card(written(tmp_path, text)).box_corners == corners
        for other in ("edges", "pixels"):
            assert read_card(written(tmp_path, text.replace("classes = 2", said.format(other)))).box_corners == other


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("classes = 2", 'box_corners = "inclusive"\nclasses = 2', r"box_corners: Input should be 'edges' or 'pixels'"),
        ("classes = 2", 'classes = "two"', "classes"),
        ("classes = 2", "classes = 3", "2 names for 3 classes"),
        ("input_shape = [3, 8, 8]", "input_shape = [3, 2147483648, 8]", r"input_shape\.1: .* less than 2147483648"),
        ("rotate180 = true", "crop = 99999999999999999999", r"preprocess\.crop: .* less than"),
        ("classes = 2", "clases = 2", "clases"),
        ("rotate180 = true", "rotate = true", r"preprocess\.rotate"),
        ("rotate180 = true", 'fit = "stretch"\ncrop = 8', r"preprocess: .* either fit, or resize and crop"),
        ("rotate180 = true", 'fit = "squeeze"', r"preprocess\.fit"),
        ("std = [1.0, 1.0, 1.0]", "std = [1.0, 0.0, 1.0]", r"preprocess\.std\.1"),
        ("mean = [1, 1.0, 1.0]", "mean = [1.0]", r"preprocess\.mean"),
        ("mean = [1, 1.0, 1.0]", "mean = [nan, 1.0, 1.0]", r"preprocess\.mean\.0"),
        ('symbol = "mine-symbol.json"', "", "either network"),
        ("[preprocess]", '[[sources]]\nkind = "ftp"\nlocation = "x"\n[preprocess]', r"sources\.0\.kind"),
        ("[preprocess]", '[[sources]]\nkind = "gluoncv"\nlocation = "../x"\n[preprocess]', "is not a name"),
        *(
            ("[preprocess]", f'[[sources]]\nkind = "{kind}"\nlocation = "{location}"\n{more}\n[preprocess]', complaint)
            for kind, location, more, complaint in (
                ("gluoncv", "a/b", "", "a file's name"),
                ("gluoncv", "a\\u0000b", "", "is not a name"),
                ("huggingface", "owner/repository", "", "owner/repository/file"),
                ("huggingface", "owner/../file", "", "is not a name"),
                ("huggingface", f"owner/repository/{'x' * 201}", "", "is not a name"),
                ("huggingface", "o/r/f", 'revision = "main"', r"sources\.0\.revision"),
                ("gluoncv", "net-1", f'revision = "{"a" * 40}"', "only huggingface sources"),
                ("huggingface", "o/r/f", "size = 0", r"sources\.0\.size"),
                ("url", "file:///etc/passwd", "", "http://"),
                ("url", "https:///x.params", "", "http://"),
                ("url", "https://user:word@hub.example/x.params", "", "user name"),
                ("url", "https://hub.example/folder/", "", "name of a file"),
                ("url", "https://hub.example/..", "", "name of a file"),
                ("url", "https://[::1/x.params", "", "Invalid IPv6"),
            )
        ),
        ("[preprocess]", '[accuracy]\norigin = "x"\n[preprocess]', "accuracy: .*give top1, map, ap or miou"),
        (
            "[preprocess]",
            '[accuracy]\nmap = 5\ntop5 = 5\norigin = "x"\n[preprocess]',
            "top5 and perplexity go with top1",
        ),
        ("[preprocess]", '[accuracy]\nmap = 101\norigin = "x"\n[preprocess]', r"accuracy\.map: .* less than"),
        ('name = "mine"', "name = ", "not valid TOML"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in OWN
    with pytest.raises(ModelError, match=complaint) as caught:
        read_card(written(tmp_path, OWN.replace(old, new)))
    assert "mine.toml" in str(caught.value)


def test_missing_card(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.toml"):
        read_card(tmp_path / "none.toml")
