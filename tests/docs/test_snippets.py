"""Every block of code in README.md and in docs/ does what the page says.

The blocks of a page run in their order in one folder, which holds what the page's ``<!-- given: ... -->`` names.
Commands of quantkit run in this process, servers and nodes of Dask beside it until the page ends, Python in one
namespace; a block of TOML becomes the file that its first line names; of one of YAML, a configuration of Ray Serve, the
applications are made. After ``<!-- not run: REASON -->`` a block is only parsed: options must exist, Python must
compile, extras and targets of make must be there.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import Result

from quantkit.cli.main import cli
from tests.cli.conftest import runner
from tests.cluster.nodes import node
from tests.deployment.serving.process import server
from tests.docs.snippets import (
    LANGUAGES,
    PAGES,
    ROOT,
    Command,
    Snippet,
    commands,
    given,
    name_of,
    read_snippets,
    shows,
    snippets,
)
from tests.requirements import requires

NOT_RUN_AT_MOST = 14

_ALL = [snippet for page in PAGES for snippet in snippets(page)]
_RUN = [page for page in PAGES if any(each.language != "text" and not each.not_run for each in snippets(page))]
_CHECKED = [each for each in _ALL if each.not_run]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requires("onnx", "onnxruntime", "openvino")
@pytest.mark.parametrize("page", _RUN, ids=name_of)
def test_a_page_does_what_it_says(
    page: Path, make_given: Callable[[str, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--layers" in page.read_text():
        # Engines are compared layer by layer.
        requires("vnni")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in given(page):
        make_given(name, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    # Ray reports to its makers otherwise.
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    namespace: dict[str, object] = {"__name__": "page"}
    with ExitStack() as nodes:
        for snippet in snippets(page):
            if not snippet.not_run:
                _run(snippet, namespace, nodes)


def _run(snippet: Snippet, namespace: dict[str, object], nodes: ExitStack) -> None:
    if snippet.language == "console":
        for command in commands(snippet.text):
            if command.arguments[0] == "dask":
                nodes.enter_context(node(command.arguments[1:], Path.cwd()))
                continue
            if command.arguments[:2] == ("quantkit", "serve"):
                told = nodes.enter_context(server(command.arguments[1:], Path.cwd()))
                assert shows(command.output, told), f"{snippet.place} shows what is not printed:\n{told}"
                continue
            result = _invoke(snippet, command)
            assert result.exit_code == 0, f"{snippet.place}: {command.arguments}\n{result.output}\n{result.stderr}"
            assert shows(command.output, result.stdout), f"{snippet.place} shows what is not printed:\n{result.stdout}"
    elif snippet.language == "python":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(_compiled(snippet), namespace)
    elif snippet.language == "toml":
        file = Path(_file_named(snippet))
        file.parent.mkdir(exist_ok=True)
        file.write_text(snippet.text)
    elif snippet.language == "yaml":
        _build_application(snippet)


def _build_application(snippet: Snippet) -> None:
    """Read a configuration of Ray Serve as `serve run` does, and make its application."""
    requires("ray")
    import yaml
    from ray.serve.schema import ServeDeploySchema

    configured = ServeDeploySchema.model_validate(yaml.safe_load(snippet.text))
    for each in configured.applications:
        module, _, name = each.import_path.partition(":")
        getattr(import_module(module), name)(each.args)


def _invoke(snippet: Snippet, command: Command) -> Result:
    program, *arguments = command.arguments
    assert program == "quantkit", f"{snippet.place} runs {program}; tests run quantkit alone"
    result: Result = runner().invoke(cli, arguments, prog_name="quantkit")
    return result


def _compiled(snippet: Snippet) -> object:
    # Line numbers of errors are those of the page.
    return compile("\n" * snippet.line + snippet.text, str(ROOT / snippet.page), "exec")


def _file_named(snippet: Snippet) -> str:
    named = re.match(r"# ([\w./-]+\.toml)\b", snippet.text)
    assert named, f"{snippet.place}: the first line of a TOML block names its file, as in '# my/net.toml'"
    tomllib.loads(snippet.text)
    return named[1]


@pytest.mark.parametrize("snippet", _CHECKED, ids=lambda snippet: snippet.place)
def test_what_is_not_run_is_sound(snippet: Snippet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    if snippet.language == "python":
        _compiled(snippet)
    elif snippet.language == "toml":
        _file_named(snippet)
    else:
        for command in commands(snippet.text):
            _check(command)


def _check(command: Command) -> None:
    program, *arguments = command.arguments
    if program == "quantkit":
        context = click.Context(cli, info_name="quantkit")
        _, verb, rest = cli.resolve_command(context, arguments)
        assert verb is not None
        with verb.make_context(verb.name, rest, parent=context):
            pass
    elif program == "make":
        targets = (ROOT / "Makefile").read_text()
        assert re.search(rf"^\.PHONY:(?:.*\\\n)*.*\b{re.escape(arguments[0])}\b", targets, re.MULTILINE), arguments
    elif command.arguments[:2] == ("pip", "install"):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        (wanted,) = re.findall(r"\[([\w,]+)\]$", command.arguments[-1])
        assert set(wanted.split(",")) <= set(extras), command.arguments
    else:
        pytest.fail(f"no test knows how to check {program}")


def test_every_block_is_of_a_kind_that_tests_know() -> None:
    unknown = [f"{each.place}: {each.language or 'no language'}" for each in _ALL if each.language not in LANGUAGES]
    assert not unknown, f"mark blocks as {', '.join(sorted(LANGUAGES))}: {unknown}"
    assert not [each.place for each in _ALL if each.language == "text" and "\n$ " in f"\n{each.text}"]


def test_few_blocks_are_not_run() -> None:
    assert len(_CHECKED) <= NOT_RUN_AT_MOST, [each.place for each in _CHECKED]
    assert len(_ALL) - len(_CHECKED) > 4 * NOT_RUN_AT_MOST


def test_the_reason_is_read() -> None:
    text = "<!-- not run: it takes hours -->\n```console\n$ quantkit a\n```\n```python\nb\n```\n"
    first, second = read_snippets(text, "page")
    assert (first.not_run, first.line, first.text) == ("it takes hours", 2, "$ quantkit a\n")
    assert (second.not_run, second.language) == (None, "python")


def test_output_is_compared_but_for_figures() -> None:
    printed = "\nnet in INT8:  net-int8\n  latency   FP32 4.35 ms\n  weights   trained\n"
    assert shows(("  latency   FP32 17 ms",), printed)
    assert shows(("net in INT8: net-int8", "...", "weights trained"), printed)
    assert not shows(("  latency   INT8 17 ms",), printed)
    assert not shows(("net in INT8: net-int8", "weights trained"), printed)


def test_a_command_that_fails_or_prints_something_else_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in ("$ quantkit verify nothing\n", "$ quantkit --version\nquantkit version 0.1.0\n"):
        with pytest.raises(AssertionError):
            _run(Snippet("page", 1, "console", wrong, None), {}, ExitStack())
    _run(Snippet("page", 1, "console", "$ quantkit --version\nquantkit 9.9.9\n", None), {}, ExitStack())
