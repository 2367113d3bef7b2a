"""Errors: a sentence, a code that stays the same from version to version, perhaps a hint."""

from __future__ import annotations

from ._strata import Error as _Raw


class Error(Exception):
    """What went wrong: ``str(error)`` is a sentence, ``code`` its kind, ``hint`` what to do about it."""

    def __init__(self, message: str, code: str = "invalid_argument", hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class Canceled(Error):
    """The request was canceled."""


def translate(error: _Raw) -> Error:
    """The error of the native half as one of these."""
    message, code, hint = error.args
    kind = Canceled if code == "canceled" else Error
    return kind(message, code, hint)
