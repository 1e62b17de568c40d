"""The text that names one interleaving, so that a later launch can replay it: ``replay:...``.

It has the agents that acted, up to the last one that a run left to itself would not have chosen.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from itertools import groupby

from ...core.errors import SpecError

__all__ = ["REPLAY", "choices_of", "is_token", "token_of"]

#: What the name of such a schedule begins with.
REPLAY = "replay:"
#: The largest number of bytes that a token may unpack to.
_LIMIT = 1 << 26


def token_of(choices: Sequence[str]) -> str:
    """Return the token of a run's choices."""
    runs = [[agent, len(list(group))] for agent, group in groupby(choices)]
    packed = zlib.compress(json.dumps(runs, separators=(",", ":")).encode(), 9)
    return REPLAY + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def is_token(schedule: str) -> bool:
    """True if a schedule's name is that of an interleaving."""
    return schedule.startswith(REPLAY)


def choices_of(token: str) -> tuple[str, ...]:
    """Return the choices that a token names. Raise :class:`SpecError` if it names none."""
    text = token.removeprefix(REPLAY)
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        runs = json.loads(zlib.decompressobj().decompress(packed, _LIMIT))
        found: tuple[object, ...] = tuple(agent for agent, count in runs for _ in range(count))
    except (binascii.Error, ValueError, TypeError, zlib.error):
        found = (0,)
    if not all(isinstance(agent, str) for agent in found):
        raise SpecError(
            f"schedule is {token!r}: not an interleaving",
            hint='copy the whole name that the report of "all" has',
        )
    return tuple(map(str, found))
