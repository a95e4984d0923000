"""The bundle: a network on disk with everything needed to deploy it and to trust it."""

from __future__ import annotations

from quantkit.bundle.bundle import Bundle as Bundle
from quantkit.bundle.file_names import BUNDLE as BUNDLE
from quantkit.bundle.manifest_file import read_manifest as read_manifest
from quantkit.bundle.read import open_bundle as open_bundle
from quantkit.bundle.read import read_bundle as read_bundle
from quantkit.bundle.verify import Check as Check
from quantkit.bundle.verify import Verification as Verification
from quantkit.bundle.verify import verify_bundle as verify_bundle
from quantkit.bundle.verify import verify_files as verify_files
from quantkit.bundle.write import write_bundle as write_bundle
from quantkit.bundle.write import write_float_bundle as write_float_bundle
