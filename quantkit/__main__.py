"""``python -m quantkit``: the command line."""

from __future__ import annotations

from quantkit.cli.main import main

if __name__ == "__main__":
    main()
