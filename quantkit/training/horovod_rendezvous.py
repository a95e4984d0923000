"""The process of Horovod's rendezvous, where instances leave their addresses for each other.

    python -m quantkit.training.horovod_rendezvous SETTINGS

SETTINGS is a JSON object with ``host`` and ``port``.
"""

from __future__ import annotations

import json
import sys

from quantkit.benchmark.workers.worker import die_first


def main(text: str) -> None:
    """Serve until the process that started this one ends it."""
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    settings = json.loads(text)
    with RendezvousHTTPServer((settings["host"], settings["port"]), RendezvousHandler, False) as server:
        server.serve_forever()


if __name__ == "__main__":
    die_first()
    main(sys.argv[1])
