"""Small changes to PTX text that leave it PTX, mostly: other code, which nobody meant and which may do anything."""

from __future__ import annotations

import random
import re

__all__ = ["mutated"]

_STATEMENT = re.compile(r"^\s+(?:@!?%\w+\s+)?[a-z][\w.:]*[^;{}]*;\s*$")
_REGISTER = re.compile(r"%([a-z]+)\d+\b")
_NUMBER = re.compile(r"(?<![\w.$%])-?(?:0x[0-9a-fA-F]+|\d+)(?![\w.])")
_LABEL = re.compile(r"^\s*(\$\w+):", re.M)
_BRANCH = re.compile(r"(\bbra(?:\.uni)?\s+)(\$\w+)")
_NUMBERS = ["0", "1", "-1", "2", "31", "32", "33", "64", "255", "4096", "65536", "2147483647", "-2147483648", "4294967295",
            "-9223372036854775808"]  # fmt: skip


def _other_register(line: str, text: str, draw: random.Random) -> str:
    found = list(_REGISTER.finditer(line))
    if not found:
        return line
    match = draw.choice(found)
    same = sorted({m[0] for m in _REGISTER.finditer(text) if m[1] == match[1]})
    return line[: match.start()] + draw.choice(same) + line[match.end() :]


def _other_number(line: str, text: str, draw: random.Random) -> str:
    found = list(_NUMBER.finditer(line))
    if not found:
        return line
    match = draw.choice(found)
    return line[: match.start()] + draw.choice(_NUMBERS) + line[match.end() :]


def _other_target(line: str, text: str, draw: random.Random) -> str:
    labels = _LABEL.findall(text)
    return _BRANCH.sub(lambda match: match[1] + draw.choice(labels), line)


def _other_guard(line: str, text: str, draw: random.Random) -> str:
    flags = sorted(set(re.findall(r"%p\d+", text)))
    if line.lstrip().startswith("@"):
        return re.sub(r"@(!?)", lambda match: "@" if match[1] else "@!", line, count=1)
    return f"@{draw.choice(['', '!'])}{draw.choice(flags)} {line.lstrip()}" if flags else line


def _gone(line: str, text: str, draw: random.Random) -> str:
    return ""


def _twice(line: str, text: str, draw: random.Random) -> str:
    return f"{line}\n{line}"


def _jump(line: str, text: str, draw: random.Random) -> str:
    labels = _LABEL.findall(text)
    return f"bra {draw.choice(labels)};\n{line}" if labels else line


_CHANGES = [
    _other_register,
    _other_register,
    _other_number,
    _other_number,
    _other_target,
    _other_guard,
    _gone,
    _twice,
    _jump,
]


def mutated(text: str, draw: random.Random) -> str:
    """``text`` with one to four changes."""
    lines = text.splitlines()
    places = [number for number, line in enumerate(lines) if _STATEMENT.match(line)]
    branches = [number for number in places if _BRANCH.search(lines[number])]
    for _ in range(draw.randint(1, 4)):
        change = draw.choice(_CHANGES)
        number = draw.choice(branches if change is _other_target and branches else places)
        lines[number] = change(lines[number], text, draw)
    return "\n".join(lines)
