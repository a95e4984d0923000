"""The references are whole: every command, option, public name, variable and file of a bundle has its place."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields

import click
import pytest

import quantkit
from quantkit.benchmark.results.results import Contestant, Published, Settings
from quantkit.benchmark.suites.published import Beside
from quantkit.benchmark.suites.suite import Recurrent, Subject, Suite
from quantkit.bundle.file_names import KNOWN
from quantkit.cli.main import cli
from quantkit.models.card_schema import CardTable, PreprocessTable, SourceTable
from quantkit.quantization.ptq_config import PRESETS, PTQConfig
from tests.docs.snippets import ROOT

PAGES = ROOT / "docs" / "pages"


@pytest.fixture(scope="module")
def command_line() -> str:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from cli_reference import page

        return page()
    finally:
        sys.path.remove(str(ROOT / "docs"))


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, click.Context(inner, parent=context, info_name=name))


def test_every_command_and_option_is_in_the_reference(command_line: str) -> None:
    sections = re.split(r"^#+ ", command_line, flags=re.MULTILINE)
    for path, command in _commands(cli, click.Context(cli, info_name="quantkit")):
        heading = "Command line\n" if path == "quantkit" else f"{path} {{#{path.replace(' ', '-')}}}\n"
        (section,) = (each for each in sections if each.startswith(heading))
        for option in (each for each in command.params if isinstance(each, click.Option)):
            assert re.search(rf"^\| `[^`]*{re.escape(option.opts[-1])}\b", section, re.MULTILINE), (path, option.opts)


def test_help_texts_are_no_markup(command_line: str) -> None:
    # Ranges such as [x>=1] would be links or tags.
    assert "&#91;x&#62;=1&#93;" in command_line
    assert not re.search(r"<\w+>", re.sub(r"`[^`]*`|```.*?```", "", command_line, flags=re.DOTALL))


def test_every_public_name_is_in_the_reference() -> None:
    named = re.findall(r"^::: quantkit\.(\w+)$", (PAGES / "reference" / "python.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(set(quantkit.__all__) - {"__version__"})


def test_every_environment_variable_has_its_row() -> None:
    page = (PAGES / "reference" / "environment.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "quantkit").rglob("*.py"))
    for variable in set(re.findall(r"\bQUANTKIT_[A-Z_]+[A-Z]\b", sources)):
        assert f"| `{variable}` |" in page, variable


def test_every_file_of_a_bundle_has_its_row() -> None:
    page = (PAGES / "reference" / "bundle.md").read_text()
    for name in KNOWN:
        assert f"`{name}`" in page, name


def test_every_algorithm_is_among_the_keys_and_the_techniques() -> None:
    for page in ("reference/configuration.md", "concepts/algorithms.md"):
        text = (PAGES / page).read_text()
        for each in fields(PTQConfig):
            assert f"`{each.name}`" in text, (page, each.name)


def test_every_key_of_a_suite_has_its_row() -> None:
    page = (PAGES / "reference" / "suite.md").read_text()
    top, *tables = re.split(r"^## ", page, flags=re.MULTILINE)
    sections = {"": top} | {table.partition("\n")[0].strip("`[]"): table for table in tables}
    known = [
        ("", Suite), ("network", Subject), ("contestant", Contestant), ("contestant", Settings),
        ("published_table", Beside), ("published", Published),
    ]  # fmt: skip
    # What quantkit fills in, and what stands in tables.
    others = {Suite: {"name", "networks", "contestants", "published", "sources"}, Published: {"table", "own_batch"}}
    for section, table in known:
        for key in {each.name for each in fields(table)} - others.get(table, set()):
            assert re.search(rf"^\| [^|]*`{key}`", sections[section], re.MULTILINE), (section, key)
    for each in fields(Recurrent):
        assert f"`{each.name}`" in sections["network"], each.name


def test_every_key_of_a_card_has_its_row() -> None:
    page = (PAGES / "reference" / "card.md").read_text()
    for table in (CardTable, PreprocessTable, SourceTable):
        for key in set(table.model_fields) - {"accuracy", "preprocess", "sources"}:
            assert re.search(rf"^\| [^|]*`{key}`", page, re.MULTILINE), key


def test_the_table_of_presets_is_that_of_the_code() -> None:
    lines = (PAGES / "concepts" / "algorithms.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| preset |"))
    columns, _, *rows = ([cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines[start : start + 6])
    assert [row[0] for row in rows] == list(PRESETS)
    for row in rows:
        preset = PRESETS[row[0]]
        switches = {name: getattr(preset, name) for name in columns[1:-1]}
        assert {name: cell == "yes" for name, cell in zip(columns[1:-1], row[1:-1])} == switches
        assert int(row[-1]) == preset.num_samples
        assert not any(getattr(preset, name) for name in ("equalize", "observers", "analytic_bias"))


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    links = re.findall(r"\]\(([^)#\s]+)(?:#([\w-]+))?\)", text)
    assert len(links) > 20
    for path, anchor in links:
        target = ROOT / path
        assert target.is_file(), path
        headings = re.findall(r"^#+ (.+)$", target.read_text().lower(), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", each).replace(" ", "-") for each in headings}


def test_no_page_names_the_host_of_a_registry() -> None:
    for path in (*PAGES.rglob("*.md"), ROOT / "README.md", ROOT / "docs" / "mkdocs.yml"):
        assert not re.search(r"pypi\.org|pythonhosted|anaconda\.org|unpkg|jsdelivr", path.read_text()), path
