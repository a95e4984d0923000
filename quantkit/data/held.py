"""The last results of a function that several threads call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Held(Generic[Key, Value]):
    """A function whose last ``most`` results are held; threads that ask for one at a time share a single call.

    Failures are not held.
    """

    def __init__(self, function: Callable[[Key], Value], most: int) -> None:
        self._function, self._most = function, most
        self._results: OrderedDict[Key, Future[Value]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: Key) -> Value:
        with self._lock:
            result = self._results.get(key)
            computing = result is None
            if result is None:
                result = self._results[key] = Future()
                if len(self._results) > self._most:
                    self._results.popitem(last=False)
        if computing:
            try:
                result.set_result(self._function(key))
            except BaseException as error:
                with self._lock:
                    # Those who wait now are told; who asks later has the function called again.
                    if self._results.get(key) is result:
                        del self._results[key]
                result.set_exception(error)
        return result.result()
