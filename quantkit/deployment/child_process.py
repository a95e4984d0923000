"""A process of quantkit's own that answers messages."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from quantkit.backends.mxnet.subprocesses import module_command
from quantkit.errors import EngineError, InstanceError, error_of

# Seconds between looks whether the process lives: a fork of this one may hold its channel open.
_LOOK_EVERY = 1.0


class ChildProcess:
    """A process that runs one of quantkit's modules, and the channel to it, on which each message is JSON.

    It ends with the thread that starts it. One thread uses the channel, any may kill the process.
    """

    def __init__(
        self,
        noun: str,
        module: str,
        settings: Mapping[str, Any],
        variables: Mapping[str, str],
        descriptors: Sequence[int] = (),
        quiet: bool = False,
    ) -> None:
        """Start the process.

        Args:
            noun: what it is in messages, such as ``an instance``.
            module: the module, which is run with one argument: the settings as JSON.
            settings: JSON values; the channel's descriptor is added as ``channel``.
            variables: its whole environment.
            descriptors: further ones that it inherits.
            quiet: drop what it writes on standard output and error.

        Raises:
            OSError: it cannot be started.
        """
        self._noun = noun
        self._channel, theirs = Pipe()
        with theirs:
            text = json.dumps({**settings, "channel": theirs.fileno()})
            self._process = subprocess.Popen(
                module_command(module, text),
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if quiet else None,
                stderr=subprocess.DEVNULL if quiet else None,
                pass_fds=(theirs.fileno(), *descriptors),
                # Ctrl-C in a terminal is for this process, which ends its children.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def channel(self) -> Connection:
        """The channel, to wait for several processes at once."""
        return self._channel

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            InstanceError: the process ended.
        """
        try:
            self._channel.send_bytes(json.dumps(message).encode())
        except OSError as error:
            raise self.gone() from error

    def answer(self, patience: float) -> dict[str, Any]:
        """The next message, for which this waits ``patience`` seconds.

        Raises:
            QuantkitError: the error that the message tells.
            InstanceError: the process ended, or hangs.
        """
        deadline = time.monotonic() + patience
        try:
            while not self._channel.poll(_LOOK_EVERY):
                if not self.lives():
                    raise self.gone()
                if time.monotonic() > deadline:
                    self._process.kill()
                    raise InstanceError("hung", f"{self._noun} gave no answer for {patience:.0f} s")
            answer: dict[str, Any] = json.loads(self._channel.recv_bytes())
        except (EOFError, OSError) as error:
            raise self.gone() from error
        if "error" in answer:
            kind, message = answer["error"]
            raise error_of(kind, message, EngineError)
        return answer

    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it, whatever it does; the thread that waits for it gets an ``InstanceError``."""
        self._process.kill()

    def close(self) -> None:
        """End it and close the channel; of the thread that uses it."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def gone(self) -> InstanceError:
        """How it ended, which it has, or has now."""
        self._process.kill()
        code = self._process.wait()
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        return InstanceError("killed" if code < 0 else "crashed", f"{self._noun} {how}")


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
