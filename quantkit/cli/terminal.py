"""Terminal: results on standard output, progress and warnings on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from quantkit.cli.work import Work, print_json, print_result, shortened, without_controls
from quantkit.progress import T

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType
    from quantkit.data.left_out import LeftOut


@dataclass(frozen=True)
class Terminal:
    """Prints what --json and --quiet ask for, and knows the work to report on."""

    work: Work
    json: bool = False
    quiet: bool = False

    def stage(self, title: str) -> None:
        """Print that a stage begins."""
        self.tell(f"{title} ...")

    def tell(self, text: str) -> None:
        """Print a line, unless --quiet."""
        if not self.quiet:
            print(without_controls(text), file=sys.stderr, flush=True)

    def progress(self, stream: Iterable[T], total: int, title: str) -> Iterable[T]:
        """Show the progress of a stream of ``total`` batches: a bar on a terminal, elsewhere one line."""
        if self.quiet or not sys.stderr.isatty():
            self.stage(title)
            return stream
        from tqdm import tqdm

        desc = without_controls(title)
        bar: Iterable[T] = tqdm(stream, total=total, desc=desc, unit="batch", leave=False, file=sys.stderr)
        return bar

    def show(self, result: Mapping[str, Any], *parts: RenderableType) -> None:
        """Print the result: ``result`` with --json, else ``parts`` unless --quiet.

        Strings are printed literally, in tables too; styled text is a ``rich.text.Text``.
        """
        if self.json:
            print_json(result)
        elif not self.quiet:
            from rich.text import Text

            from quantkit.cli.console import PlainConsole

            console = PlainConsole()
            with console.capture() as capture:
                for part in parts:
                    # Only tables are fitted to the width, so that printed commands can be copied.
                    console.print(part, soft_wrap=isinstance(part, (str, Text)))
            print_result("\n".join(line.rstrip() for line in capture.get().splitlines()))

    def warn(self, message: Union[str, Warning]) -> None:
        """Print a warning on standard error, --quiet or not."""
        print(without_controls(f"Warning: {shortened(str(message))}"), file=sys.stderr, flush=True)

    def warn_of_left_out(self, left_out: Sequence[LeftOut]) -> None:
        """Print a warning of the samples that were left out, if there are any."""
        if left_out:
            from quantkit.data.left_out import told

            self.warn(told(left_out))

    def alarm(self, title: str, message: str) -> None:
        """Print a warning in a frame."""
        from rich.panel import Panel
        from rich.text import Text

        from quantkit.cli.console import PlainConsole

        # Removed before rich measures the text for the frame.
        text = without_controls(message)
        PlainConsole(stderr=True).print(Panel(text, title=Text(title), border_style="bold red", expand=False))

    def take_warnings(self) -> None:
        """Print quantkit's warnings as ``warn`` does from now on, and drop those of other libraries."""

        def printed(message: Union[Warning, str], category: type[Warning], *_: Any, **__: Any) -> None:
            if category.__module__.startswith("quantkit."):
                self.warn(message)

        warnings.simplefilter("always")
        warnings.showwarning = printed
