"""Tracebacks of pyptx's own errors, without pyptx's own frames.

Owns :func:`short_traceback`, the decorator of the functions that users call.  An error about a kernel passes
through eight or more frames of pyptx; the short traceback keeps the user's frames and one frame of the
function that the user called.  ``PYPTX_FULL_TRACEBACK=1`` in the environment keeps every frame.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from .errors import PyptxError
from .source import is_author_file

__all__ = ["FULL_TRACEBACK", "short_traceback", "shortened"]

#: Environment variable that makes tracebacks keep every frame.
FULL_TRACEBACK = "PYPTX_FULL_TRACEBACK"

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def short_traceback(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Wrap ``function`` so that the traceback of a :class:`PyptxError` leaves out pyptx's inner frames."""

    @functools.wraps(function)
    def call(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        try:
            return function(*arguments, **keywords)
        except PyptxError as error:
            caught = error
        try:
            raise shortened(caught)
        finally:
            del caught  # its traceback refers to this frame: a reference cycle

    return call


def shortened(error: PyptxError) -> PyptxError:
    """Return the error with a traceback without pyptx's inner frames, to be raised outside of ``except``."""
    if os.environ.get(FULL_TRACEBACK, "") not in ("", "0"):
        return error
    return error.with_traceback(_authors(error.__traceback__))


def _authors(traceback: TracebackType | None) -> TracebackType | None:
    """Return ``traceback`` reduced to the frames of the author's files."""
    entries: list[TracebackType] = []
    while traceback is not None:
        if is_author_file(traceback.tb_frame.f_code.co_filename):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept
