"""Answers that say why there is no other."""

from __future__ import annotations

from fastapi.responses import JSONResponse

# Seconds after which a client may try again where there was too much to do.
_RETRY_AFTER = "1"


def refusal(status: int, reason: str) -> JSONResponse:
    """An answer with a reason, as the protocol writes errors."""
    return JSONResponse({"error": reason}, status, {"retry-after": _RETRY_AFTER} if status == 503 else {})
