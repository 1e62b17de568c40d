"""Logging of the package: the loggers ``pyptx.*`` of the standard library.

Owns the names of the loggers and ``PYPTX_LOG``, which prints their messages to standard error.  Without it
the application decides, as with any library: pyptx installs no handler.
"""

from __future__ import annotations

import logging
import os

from .errors import SpecError

__all__ = ["LOG", "logger"]

#: Environment variable with the least level to print: ``debug``, ``info``, ``warning`` or ``error``.
LOG = "PYPTX_LOG"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_configured = False


def logger(name: str) -> logging.Logger:
    """Return the logger ``pyptx.NAME``. The first call reads ``PYPTX_LOG``.

    Raises:
        SpecError: ``PYPTX_LOG`` is not the name of a level.
    """
    global _configured
    if not _configured:
        _configured = True
        _configure(os.environ.get(LOG, ""))
    return logging.getLogger(f"pyptx.{name}")


def _configure(level: str) -> None:
    if not level:
        return
    if level.lower() not in _LEVELS:
        raise SpecError(f"{LOG} is {level!r}: expected {', '.join(_LEVELS)}")
    root = logging.getLogger("pyptx")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(_LEVELS[level.lower()])
    root.propagate = False
