"""A process of MXNet's parameter server, its scheduler or a server, as ``DMLC_ROLE`` says.

python -m quantkit.training.parameter_server SETTINGS
"""

from __future__ import annotations

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.benchmark.workers.worker import die_first

if __name__ == "__main__":
    die_first()
    # MXNet serves while it is imported, and ends the process.
    load_mxnet()
