"""The threads of OpenBLAS, asked of the library itself, which NumPy's and SciPy's wheels bring along."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from quantkit.host import blas
from quantkit.host.blas import single_threaded_blas


@pytest.mark.parametrize("module", blas._LINKED)
def test_one_thread_within_and_as_many_as_before_afterwards(module: str) -> None:
    library = blas._library(module)
    if library is None:
        # SciPy comes with an engine, or not at all.
        assert find_spec(module.partition(".")[0]) is None
        return
    get, put = library
    before = get()
    put(2)
    try:
        with single_threaded_blas():
            assert get() == 1
        assert get() == 2
        with pytest.raises(ZeroDivisionError), single_threaded_blas():
            1 // 0  # noqa: B018
        assert get() == 2
        first, second = single_threaded_blas(), single_threaded_blas()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert get() == 1
        second.__exit__(None, None, None)
        assert get() == 2
    finally:
        put(before)


@pytest.mark.parametrize("module", ["quantkit.no_such_module", "PIL._imaging"])
def test_a_library_that_is_not_there_or_another_one(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert blas._library(module) is None
    monkeypatch.setattr(blas, "_LINKED", (module,))
    with single_threaded_blas():
        pass
