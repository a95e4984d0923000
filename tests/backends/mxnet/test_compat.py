from __future__ import annotations

import subprocess
import sys

import pytest

from quantkit.backends.mxnet.compat import PARALLEL_SIZE
from tests.processes import environment


@pytest.mark.usefixtures("engine")
def test_gluoncv_leaves_pillow_strict() -> None:
    code = (
        "from quantkit.backends.mxnet.compat import load_gluoncv; load_gluoncv(); "
        "from PIL import ImageFile; raise SystemExit(ImageFile.LOAD_TRUNCATED_IMAGES)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("before", "after"), [(None, None), ("/a:", "/a"), (":/a::/b", "/a:/b")])
def test_no_library_is_looked_for_in_the_current_folder_afterwards(before: str | None, after: str | None) -> None:
    """An empty entry in LD_LIBRARY_PATH is the current folder; OpenCV adds one."""
    code = (
        "import os; from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet; load_mxnet(); load_gluoncv(); "
        f"raise SystemExit(os.environ.get('LD_LIBRARY_PATH') != {after!r})"
    )
    kept = {name: value for name, value in environment().items() if name != "LD_LIBRARY_PATH"}
    given = {} if before is None else {"LD_LIBRARY_PATH": before}
    assert subprocess.run([sys.executable, "-c", code], env={**kept, **given}, check=False).returncode == 0


@pytest.mark.usefixtures("engine")
def test_scikit_learn_is_not_imported_along_and_can_be_afterwards() -> None:
    code = (
        "import sys; from quantkit.backends.mxnet.compat import load_mxnet; load_mxnet(); "
        "early = 'sklearn' in sys.modules; import sklearn.base; "
        "raise SystemExit(early or sklearn.base.BaseEstimator is None)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
def test_scipys_statistics_are_imported_when_mxnet_uses_them() -> None:
    code = (
        "import sys; from quantkit.backends.mxnet.compat import load_mxnet; mxnet = load_mxnet(); "
        "early = 'scipy.stats' in sys.modules; entropy = mxnet.contrib.quantization.stats.entropy([0.5, 0.5]); "
        "median = mxnet.test_utils.ss.norm.ppf(0.5); import scipy.stats; "
        "raise SystemExit(early or abs(entropy - 0.6931) > 1e-3 or median != 0 or not scipy.stats.norm)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
def test_what_mxnet_hardly_needs_is_imported_when_it_is_used() -> None:
    code = """
import sys
from quantkit.backends.mxnet.compat import load_mxnet
mxnet = load_mxnet()
early = {"requests", "scipy.sparse", "distutils", "setuptools", "pkg_resources"} & sys.modules.keys()
used = mxnet.test_utils.requests.get, mxnet.gluon.utils.requests.get
import distutils.dir_util, requests, scipy.sparse
alike = used == (requests.get, requests.get) and distutils.dir_util.mkpath is not None
array = mxnet.nd.sparse.csr_matrix(scipy.sparse.csr_matrix([[0.0, 2.0]])).asnumpy().tolist()
raise SystemExit(bool(early) or not alike or array != [[0.0, 2.0]])
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
def test_modules_that_were_imported_before_stay() -> None:
    code = """
import sys
import distutils.version, requests
before = sys.modules["distutils"], sys.modules["distutils.version"], sys.modules["requests"]
from quantkit.backends.mxnet.compat import load_mxnet
mxnet = load_mxnet()
after = sys.modules["distutils"], sys.modules["distutils.version"], sys.modules["requests"]
raise SystemExit(before != after or mxnet.gluon.utils.requests is not requests)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
def test_only_the_thread_that_imports_mxnet_misses_modules() -> None:
    code = (
        "import sys, threading; from quantkit.backends.mxnet import compat\n"
        "with compat._without('sklearn.base'):\n"
        "    thread = threading.Thread(target=__import__, args=('sklearn.base',)); thread.start(); thread.join()\n"
        "    raise SystemExit('sklearn.base' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
def test_scikit_learn_that_was_imported_before_stays() -> None:
    code = (
        "import sys, sklearn.base; from quantkit.backends.mxnet.compat import load_mxnet; load_mxnet(); "
        "raise SystemExit(sys.modules.get('sklearn.base') is not sklearn.base)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("elements", "started"), [(None, 0), ("200000", 3)])
def test_arrays_are_copied_by_one_thread_unless_the_user_says_otherwise(elements: str | None, started: int) -> None:
    """A second team of threads would have GNU's OpenMP let those of the engine sleep between operators."""
    code = (
        "import os, numpy; from quantkit.backends.mxnet.compat import load_mxnet; nd = load_mxnet().nd; "
        "copy = lambda size: nd.array(numpy.zeros(size, numpy.float32)).asnumpy(); copy(8); "
        "before = len(os.listdir('/proc/self/task')); copy(1 << 20); "
        f"raise SystemExit(len(os.listdir('/proc/self/task')) - before != {started})"
    )
    given = {"OMP_NUM_THREADS": "4", **({} if elements is None else {PARALLEL_SIZE: elements})}
    inherited = {name: value for name, value in environment().items() if name != PARALLEL_SIZE}
    assert subprocess.run([sys.executable, "-c", code], env={**inherited, **given}, check=False).returncode == 0
