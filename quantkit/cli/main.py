"""The command line: its verbs, its exit codes, and what it prints when something goes wrong."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn, Optional

import click

from quantkit.cli.ending import no_more
from quantkit.cli.options import write_examples
from quantkit.cli.work import Work, without_controls
from quantkit.errors import EngineError, QuantkitError, UserError
from quantkit.files.temporary import remove_own
from quantkit.host.children import kill_descendants
from quantkit.version import __version__

_BROKEN_PIPE = 141
_EXAMPLES = (
    "quantkit quantize resnet50 --calib 10",
    "quantkit quantize my/net.toml --calib 100 --calib-data photos/",
    "quantkit evaluate resnet50_v1-int8 --data photos/ --reference resnet50",
    "quantkit analyze resnet50_v1-int8 --data photos/",
    "quantkit explain resnet50_v1-int8",
    "quantkit export resnet50_v1-int8 --out resnet50.onnx",
    "quantkit benchmark resnet50 --builds native,onednn --batch 1,16",
    "quantkit report resnet50_v1-benchmark --out report",
    "quantkit tune resnet50_v1-int8 --p99 15ms",
    "quantkit serve resnet50_v1-int8",
    "quantkit doctor",
)
_MORE_MEMORY = (
    "take fewer images (--calib) or a smaller batch or --input-shape, end what else takes memory, or use a machine "
    "that has more"
)
# What even a question about a path may end in.
_UNUSABLE = {
    errno.EACCES: "choose another path, or ask for permission",
    errno.ELOOP: "choose a path whose links lead somewhere",
    errno.ENAMETOOLONG: "choose a shorter path",
}
_ALLOCATION = ("Failed to allocate", "bad_alloc")

# In the order of use, with the first lines of their help texts. The module of each verb has its name and is imported
# on demand.
_VERBS = {
    "quantize": "Quantize a network to INT8 and write a bundle.",
    "finetune": "Train a network on your own classes.",
    "evaluate": "Measure accuracy, and agreement with a reference.",
    "analyze": "Say why an INT8 network differs from FP32, layer by layer.",
    "explain": "Say what became of each operator, and why.",
    "verify": "Check that a bundle is complete and unaltered.",
    "predict": "Run a bundle's network on images and show what it finds.",
    "tune": "Find the fastest deployment of a bundle on this machine.",
    "serve": "Answer requests over HTTP by the Open Inference Protocol.",
    "watch": "Show whether a deployment drifts.",
    "export": "Write a network as an ONNX file.",
    "benchmark": "Measure speed across builds and pinned instances, or accuracy form by form.",
    "report": "Make a report of benchmark results.",
    "compare": "Compare two runs of a benchmark, cell by cell.",
    "profile": "Show where the time goes: by layer, by operator and by kernel.",
    "feed": "Measure whether decoding images keeps up with a network, or with its training.",
    "builds": "Make and check the engines that benchmarks compare.",
    "fuse": "Fuse a network's operators and keep it in FP32.",
    "calibrate": "Measure the ranges of a network's tensors and save them as a table.",
    "pack": "Write the images of a folder as RecordIO shards, with their labels and names.",
    "models": "List networks by name, or describe one.",
    "cache": "List what is kept in QUANTKIT_HOME, or remove it.",
    "doctor": "Check the engine and the machine, and say what to change.",
}


class _Verbs(click.Group):
    """A group that lists its verbs in the order of use and turns every error into a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in _VERBS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"quantkit.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*_VERBS.items()])

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, _EXAMPLES)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Set before the verb parses its options, so that errors in them are printed as JSON too.
        ctx.ensure_object(Work).json = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        work = ctx.ensure_object(Work)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            ctx.exit(_BROKEN_PIPE)
        except click.ClickException as error:
            work.error_object(type(error).__name__, error.format_message())
            raise
        except KeyboardInterrupt:
            work.interrupted()
            ctx.exit(work.ended)
        except QuantkitError as error:
            _traceback(work)
            remedy = f"; {_MORE_MEMORY}" if _lacked_memory(error) else ""
            work.error(type(error).__name__, f"{error}{remedy}")
            ctx.exit(error.exit_code)
        except MemoryError as error:
            _traceback(work)
            work.error("MemoryError", f"out of memory{f' ({error})' if str(error) else ''}; {_MORE_MEMORY}")
            ctx.exit(1)
        except Exception as error:
            _traceback(work)
            if isinstance(error, OSError) and isinstance(error.filename, str) and error.errno in _UNUSABLE:
                work.error("UserError", f"cannot use {error.filename}: {error.strerror}; {_UNUSABLE[error.errno]}")
                ctx.exit(UserError.exit_code)
            hint = "" if work.debug else "; run `quantkit --debug ...` for the traceback"
            work.error(type(error).__name__, f"unexpected {type(error).__name__}: {error}{hint}")
            ctx.exit(1)


def _lacked_memory(error: QuantkitError) -> bool:
    """Whether the engine ran out of memory, which MXNet reports in its own words or in those of C++."""
    told = any(words in str(error) for words in _ALLOCATION)
    return isinstance(error, EngineError) and (told or isinstance(error.__cause__, MemoryError))


def _traceback(work: Work) -> None:
    if work.debug:
        print(without_controls(traceback.format_exc()), file=sys.stderr, end="")


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"quantkit {__version__}")
        ctx.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, help="Print the traceback of errors.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_obj
def cli(work: Work, debug: bool) -> None:
    """Turn trained MXNet, GluonCV and ONNX networks into INT8 networks that you can trust and deploy.

    A network is a name (`quantkit models` lists them), a model card, the prefix of an MXNet
    checkpoint, or an ONNX file. The result is a bundle: a folder with an ordinary MXNet checkpoint, the calibration,
    the preprocessing, the labels and a manifest with hashes.

    Exit codes: 0 done, 1 the work failed, 2 the request is wrong as given, 3 slower than `compare` allows,
    4 the goal of `quantize` or `evaluate` was missed, 130 interrupted (143 by SIGTERM, 129 by SIGHUP),
    141 the program that read the output has ended.
    """
    work.debug = debug


def main() -> NoReturn:
    """Run the command line of this process and end it."""
    work = Work()
    _reserve_standard_descriptors()
    _keep_standard_output()
    code = 1
    try:
        work.end_on_signals()
        cli(prog_name="quantkit", obj=work)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        work.interrupted()
    except OSError as error:
        # Click itself prints help and version.
        work.error("QuantkitError", f"cannot write to standard output: {error.strerror or error}")
    _end(code, work)


def _reserve_standard_descriptors() -> None:
    """Open descriptors 0, 1 and 2 if they are closed, so that no file or pipe gets these numbers."""
    while True:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened > 2:
            os.close(opened)
            break
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _keep_standard_output() -> None:
    """Reserve standard output for results: what the engine prints goes to standard error."""
    encoding = sys.stdout.encoding if sys.stdout else "utf-8"
    with suppress(OSError):
        private = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = os.fdopen(private, "w", encoding=encoding, errors="replace")


def _end(code: int, work: Work) -> NoReturn:
    if work.signal is None:
        no_more()
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _BROKEN_PIPE if isinstance(error, BrokenPipeError) else code or 1
        # Otherwise Python would flush again at exit and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if work.signal is not None:
        kill_descendants()
        # The signal may have come while temporary files were being removed.
        remove_own()
        # A normal exit would wait for the engine to finish.
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(work.ended)
    sys.exit(code)
