"""Keeps what a user's file prints out of a command's answer.

Standard output of the commands is their answer: PTX, JSON, a verdict.  A file that a command loads may print
too, from Python, from C or from a program that it starts; all of that goes to standard error.
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
    """Write out what Python and the C library still hold back for standard output."""
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
    except OSError:  # one of the two is closed: nothing that is not Python's can be redirected
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
    """Send what the user's exit handlers print to standard error.

    To be called when the user's file has been loaded: exit handlers run in the reverse order of their
    registration, so that this one runs before those of the file.
    """
    atexit.register(_redirect_for_good)


def _redirect_for_good() -> None:
    _flush()
    sys.stdout = sys.stderr
    with suppress(OSError):  # closed
        os.dup2(_STDERR, _STDOUT)
