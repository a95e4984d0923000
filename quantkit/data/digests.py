"""The hashes that tell samples apart, as a network reads them."""

from __future__ import annotations

import hashlib

import numpy as np


def digests_of(samples: np.ndarray) -> np.ndarray:
    """The SHA-256 of each sample's values: uint8 of shape (samples, 32)."""
    each = [hashlib.sha256(sample.tobytes()).digest() for sample in samples]
    return np.frombuffer(b"".join(each), np.uint8).reshape(len(each), -1)


def joint_digest(digests: np.ndarray) -> str:
    """The SHA-256 of samples' digests (samples, 32) in their order, in hexadecimal.

    Unlike a hash of all values it can be computed by many who have read a part of the samples each.
    """
    return hashlib.sha256(digests.tobytes()).hexdigest()
