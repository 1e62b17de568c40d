"""Keeps the output of a user's file out of a command's result.

The standard output of a command is its result: PTX, JSON, a verdict.  A file that the command loads may print
too, from Python, from C or from a program that the file starts; all of this output goes to standard error.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

__all__ = ["exit_output_to_stderr", "user_output_to_stderr"]

_STDOUT, _STDERR = 1, 2


def _flush() -> None:
    """Flush the buffers of Python and of the C library for standard output."""
    if sys.stdout is not None:  # closed
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


@contextmanager
def user_output_to_stderr() -> Iterator[None]:
    """Send standard output to standard error inside the block: ``sys.stdout`` and file descriptor 1."""
    _flush()
    try:
        kept = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
    except OSError:  # one of the two is closed: only Python's own output can be redirected
        with redirect_stdout(sys.stderr):
            yield
        return
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def exit_output_to_stderr() -> None:
    """Send the output of the user's exit handlers to standard error.

    Call this function after the user's file has been loaded: exit handlers run in the reverse order of their
    registration, so this one runs before the handlers of the file.
    """
    atexit.register(_redirect_for_good)


def _redirect_for_good() -> None:
    _flush()
    sys.stdout = sys.stderr
    with suppress(OSError):  # closed
        os.dup2(_STDERR, _STDOUT)
