"""Target architectures and PTX versions.

Owns the ``on`` clause of the table's notation (:class:`TargetSet`), the first PTX version of every
target, and the limits of each target: shared memory, multiprocessors, threads and CTAs.
Source: PTX ISA, `#ptx-module-directives-target`, and the CUDA C++ programming guide's table of compute
capabilities.
"""

from __future__ import annotations

import re
from functools import cache

from ..core.errors import TargetError
from ..core.records import dataclass

__all__ = [
    "KNOWN_TARGETS",
    "VERSIONS",
    "Target",
    "TargetSet",
    "Version",
    "parse_version",
    "target",
    "written_target",
    "version_text",
]

Version = tuple[int, int]

#: Every target and the PTX version that introduced it.
KNOWN_TARGETS: dict[str, Version] = {
    "sm_75": (6, 3),
    "sm_80": (7, 0),
    "sm_86": (7, 1),
    "sm_87": (7, 4),
    "sm_88": (9, 0),
    "sm_89": (7, 8),
    "sm_90": (7, 8),
    "sm_90a": (8, 0),
    "sm_100": (8, 6),
    "sm_100a": (8, 6),
    "sm_100f": (8, 8),
    "sm_103": (8, 8),
    "sm_103a": (8, 8),
    "sm_103f": (8, 8),
    "sm_107": (9, 4),
    "sm_107a": (9, 4),
    "sm_107f": (9, 4),
    "sm_110": (9, 0),
    "sm_110a": (9, 0),
    "sm_110f": (9, 0),
    "sm_120": (8, 7),
    "sm_120a": (8, 7),
    "sm_120f": (8, 8),
    "sm_121": (8, 8),
    "sm_121a": (8, 8),
    "sm_121f": (8, 8),
}

#: Earlier targets. ptxas accepts them in a text, and assembles the text for a later target.
_EARLIER_TARGETS: dict[str, Version] = {
    "sm_10": (1, 0),
    "sm_11": (1, 0),
    "sm_12": (1, 2),
    "sm_13": (1, 2),
    "sm_20": (2, 0),
    "sm_21": (2, 0),
    "sm_30": (3, 0),
    "sm_32": (4, 0),
    "sm_35": (3, 1),
    "sm_37": (4, 1),
    "sm_50": (4, 0),
    "sm_52": (4, 1),
    "sm_53": (4, 2),
    "sm_60": (5, 0),
    "sm_61": (5, 0),
    "sm_62": (5, 0),
    "sm_70": (6, 0),
    "sm_72": (6, 1),
}

#: Every PTX version since the first one that has a known target, in order.
VERSIONS: tuple[Version, ...] = (
    *((6, n) for n in range(3, 6)),
    *((7, n) for n in range(9)),
    *((8, n) for n in range(9)),
    *((9, n) for n in range(6)),
)

_KIB = 1024
# NVIDIA has published no limits for capability 8.8: these are the lowest of its family, those of 8.6.
# Capability 10.7 allows 327 KiB per CTA only if the launch asks for oversized shared memory.
#: Largest shared memory of one CTA in bytes, by compute capability.
_SHARED_LIMIT = {
    75: 64 * _KIB,
    80: 163 * _KIB,
    86: 99 * _KIB,
    87: 163 * _KIB,
    88: 99 * _KIB,
    89: 99 * _KIB,
    90: 227 * _KIB,
    100: 227 * _KIB,
    103: 227 * _KIB,
    107: 227 * _KIB,
    110: 227 * _KIB,
    120: 99 * _KIB,
    121: 99 * _KIB,
}
#: Number of streaming multiprocessors of the largest GPU of each capability.
_MULTIPROCESSORS = {
    75: 72,
    80: 108,
    86: 84,
    87: 16,
    88: 16,
    89: 142,
    90: 132,
    100: 148,
    103: 148,
    107: 204,
    110: 20,
    120: 188,
    121: 48,
}
#: Largest number of threads and of CTAs on one multiprocessor, where they are not 2,048 and 32.
_THREADS_PER_SM = {
    75: 1024,
    86: 1536,
    87: 1536,
    88: 1536,
    89: 1536,
    107: 1024,
    110: 1536,
    120: 1536,
    121: 1536,
}
_CTAS_PER_SM = {75: 16, 86: 16, 87: 16, 88: 16, 89: 24, 107: 16, 110: 24, 120: 24, 121: 24}
#: Static shared memory of a CTA in bytes, for targets that are not specific to one architecture.
_STATIC_SHARED = 48 * _KIB

_PATTERN = re.compile(r"^sm_(\d+)([af]?)(\+?)$")


@dataclass(frozen=True, slots=True)
class Target:
    """One target architecture: ``sm_100a`` is number 100, suffix ``a``."""

    name: str
    number: int
    suffix: str

    @property
    def since(self) -> Version:
        """The first PTX version that has this target."""
        return KNOWN_TARGETS.get(self.name) or _EARLIER_TARGETS[self.name]

    @property
    def family(self) -> int:
        """The number of the target's family. The targets of a family share the features of ``f`` targets."""
        return self.number // 10

    @property
    def shared_limit(self) -> int:
        """Largest shared memory of one CTA in bytes, static plus dynamic."""
        return _SHARED_LIMIT[self.number]

    @property
    def static_shared_limit(self) -> int:
        """Largest static shared memory in bytes that a function may declare; ptxas refuses more.

        Code for an ``a`` target runs only on that architecture, and may declare all its shared memory.
        """
        return self.shared_limit if self.suffix == "a" else _STATIC_SHARED

    @property
    def multiprocessors(self) -> int:
        """Number of streaming multiprocessors of the largest GPU with this capability."""
        return _MULTIPROCESSORS[self.number]

    @property
    def threads_per_sm(self) -> int:
        """Largest number of threads that are on one multiprocessor at once."""
        return _THREADS_PER_SM.get(self.number, 2048)

    @property
    def ctas_per_sm(self) -> int:
        """Largest number of CTAs that are on one multiprocessor at once."""
        return _CTAS_PER_SM.get(self.number, 32)

    def __str__(self) -> str:
        return self.name


@cache
def target(name: str) -> Target:
    """Return the target called ``name``. Raises :class:`TargetError` with all targets if there is none."""
    match = _PATTERN.match(name)
    if match is None or match.group(3) or name not in KNOWN_TARGETS:
        raise TargetError(f"unknown target {name!r}", hint=f"known targets: {', '.join(KNOWN_TARGETS)}")
    return Target(name, int(match.group(1)), match.group(2))


def written_target(name: str) -> Target:
    """Return the target that a PTX text names. A target before sm_75 counts as sm_75."""
    if name in _EARLIER_TARGETS:
        return Target(name, target(next(iter(KNOWN_TARGETS))).number, "")
    return target(name)


@dataclass(frozen=True, slots=True)
class TargetSet:
    """The targets of an ``on`` clause: the union of its terms.

    ``sm_90+`` is sm_90 and every target with a higher number. ``sm_90a`` is only this target. ``sm_100f`` is
    the family-specific target and every target above it in its family: ``sm_100f``, ``sm_100a``, ``sm_103f``.
    """

    terms: tuple[str, ...]

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, Target):
            return False
        return any(self._term(term, item) for term in self.terms)

    @staticmethod
    def _term(term: str, item: Target) -> bool:
        match = _PATTERN.match(term)
        assert match is not None, term
        number, suffix, plus = int(match.group(1)), match.group(2), match.group(3)
        if plus:
            return item.number >= number
        if suffix == "f":
            return item.suffix != "" and item.number >= number and item.family == number // 10
        return item.name == term

    def members(self) -> list[Target]:
        """Return every known target in the set, in order."""
        return [t for t in map(target, KNOWN_TARGETS) if t in self]

    def __str__(self) -> str:
        return " ".join(self.terms)

    @classmethod
    def parse(cls, text: str) -> TargetSet:
        """Read terms that are separated by blanks. Raises ValueError if one is not a target term."""
        terms = tuple(text.split())
        for term in terms:
            if not _PATTERN.match(term):
                raise ValueError(f"expected a target such as sm_90+, sm_90a or sm_100f, got {term!r}")
        return cls(terms)


def version_text(version: Version) -> str:
    """Return (8, 6) as the text ``"8.6"``."""
    return f"{version[0]}.{version[1]}"


def parse_version(text: str) -> Version:
    """Read the text ``"8.6"`` as (8, 6)."""
    major, minor = text.split(".")
    return (int(major), int(minor))
