from __future__ import annotations

import pytest


@pytest.mark.usefixtures("engine")
def test_gluoncv_leaves_pillow_strict() -> None:
    import subprocess
    import sys

    code = (
        "from quantkit.engine.compat import load_gluoncv; load_gluoncv(); "
        "from PIL import ImageFile; raise SystemExit(ImageFile.LOAD_TRUNCATED_IMAGES)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
