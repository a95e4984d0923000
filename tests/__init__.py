"""The tests of quantkit. What the user has set for other programs decides none of them, and nothing is left at home."""

import atexit
import os
import shutil
import tempfile

_OTHERS = (
    "MXNET_", "DMLC_", "DNNL_", "MKLDNN_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "ORT_", "HF_", "XDG_", "LC_",
    "LANG", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "SOURCE_DATE_EPOCH", "QUANTKIT_HOME",
)  # fmt: skip

# Those that tests start, xdist's workers among them, keep what they are given.
if "QUANTKIT_TESTS" not in os.environ:
    os.environ["QUANTKIT_TESTS"] = "1"
    for name in [name for name in os.environ if name.startswith(_OTHERS) or name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ["HOME"] = tempfile.mkdtemp(prefix="quantkit-tests-")
    atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
# Where several processes test at once, threads of engines that wait must not keep the others from running.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(OMP_WAIT_POLICY="PASSIVE", OPENBLAS_THREAD_TIMEOUT="4")
