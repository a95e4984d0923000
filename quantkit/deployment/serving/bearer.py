"""A token that requests must bring."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from quantkit.deployment.serving.refusal import refusal
from quantkit.errors import UserError
from quantkit.files.text import read_text

# Whoever starts the server asks these, and has no token.
_OPEN = ("/v2/health/live", "/v2/health/ready")

# What a token is made of (RFC 6750).
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,1000}=*", re.ASCII)
_TOKEN_REMEDY = "write one of at least 16 letters and digits, such as `openssl rand -hex 32` prints"
_LARGEST_TOKEN = 4096


@dataclass(frozen=True)
class Bearer:
    """Refuses requests without ``Authorization: Bearer TOKEN`` (RFC 6750), but for those of health.

    ``refused`` is called with the status of each refusal.
    """

    app: ASGIApp
    token: str
    refused: Callable[[int], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http" or self._is_open(scope) or self._is_allowed(scope):
            await self.app(scope, receive, send)
        else:
            answer = refusal(401, "give the token of this server as Authorization: Bearer TOKEN")
            answer.headers["www-authenticate"] = "Bearer"
            self.refused(answer.status_code)
            await answer(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        # An application that is mounted somewhere is given the whole path.
        return scope["path"].removeprefix(scope.get("root_path", "")) in _OPEN

    def _is_allowed(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token.encode())


def read_token(path: Path) -> str:
    """The token in a file, with or without a line's end.

    Raises:
        UserError: it cannot be read, or is none.
    """
    try:
        token = read_text(path, _LARGEST_TOKEN).strip()
    except OSError as error:
        raise UserError(
            f"cannot read the token in {path}: {error.strerror or error}; give a file that holds one"
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is no text; {_TOKEN_REMEDY}") from error
    if not _TOKEN.fullmatch(token):
        raise UserError(f"{path} holds no token; {_TOKEN_REMEDY}")
    return token
