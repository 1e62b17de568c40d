"""Splits PTX text into tokens, and provides the cursor that the parser moves over them.

A token is a string.  The dotted name of an instruction or special register is one token (``ld.global.b32``,
``%tid.x``), and so is a separate name with a leading dot (``.b32``).  Characters that PTX does not use are
tokens too: no rule of the parser accepts them, so the error names their place.
"""

from __future__ import annotations

import re
from typing import NoReturn

from ..core.errors import ParseError
from ..core.source import SourceLocation

__all__ = ["Cursor"]

_TOKEN = re.compile(
    r"""
    (?:%[\w$]+ | [A-Za-z_$][\w$]*) (?:\.\w+(?:::(?:\d+:\d+|\w+))*)*  # a name, with its dotted suffixes
    | [,;{}\[\]():@+]                                       # the most frequent characters between names
    | \.\d+(?:[eE][+-]?\d+)?(?![\w])                        # .5
    | \.\w+(?:::(?:\d+:\d+|\w+))*                        # .b32
    | 0[fF][0-9A-Fa-f]{8}(?![\w$]) | 0[dD][0-9A-Fa-f]{16}(?![\w$])
    | 0[xX][0-9A-Fa-f]+U? | 0[bB][01]+U?
    | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \d+U?
    | "[^"]*"
    | << | >> | <= | >= | == | != | && | \|\|
    | \S
    """,
    re.VERBOSE | re.ASCII,
)
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*(?:[\s\S]*?\*/)?')
_NOT_NEWLINE = re.compile(r"[^\n]")
#: Lines of the C preprocessor; ptxas also skips them.
_PREPROCESSOR = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_NAME = re.compile(r"(?:%[\w$]+|[A-Za-z$][\w$]*|_[\w$]*)\Z", re.ASCII)


class Cursor:
    """The tokens of one text and a position among them. After the last token come empty ones."""

    def __init__(self, text: str, filename: str) -> None:
        self.filename = filename
        self._text = text
        self._source = self._without_comments(text)
        self.texts: list[str] = []
        self.lines: list[int] = []
        for number, line in enumerate(self._source.split("\n"), 1):
            found = _TOKEN.findall(line)
            if found:
                self.texts += found
                self.lines += [number] * len(found)
        # Two empty tokens at the end, so that a rule may always look one token ahead.
        self.texts += ["", ""]
        self.lines += [self.lines[-1] if self.lines else 1] * 2
        self.at = 0

    def _without_comments(self, text: str) -> str:
        """Return the text with comments replaced by blanks, so that lines and columns do not change."""

        def blank(match: re.Match[str]) -> str:
            found = match[0]
            if found[0] == '"':
                return found
            if found == "/*":
                line = text.count("\n", 0, match.start()) + 1
                column = match.start() - text.rfind("\n", 0, match.start())
                raise ParseError(
                    "'/*'",
                    "an end '*/' of this comment",
                    file=self.filename,
                    line=line,
                    column=column,
                )
            return _NOT_NEWLINE.sub(" ", found) if found[1] == "*" else ""

        if "//" in text or "/*" in text:
            text = _COMMENT.sub(blank, text)
        return _PREPROCESSOR.sub("", text) if "#" in text else text

    # --- moving -------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The token at the cursor; empty at the end."""
        return self.texts[self.at]

    def take(self) -> str:
        """Return the token at the cursor and move to the next one."""
        text = self.texts[self.at]
        if not text:
            self.fail("more text")
        self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """If the token at the cursor is ``text``, move over it and return True."""
        if self.texts[self.at] != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str, what: str = "") -> None:
        """Move over ``text``. Raises :class:`ParseError` if the token at the cursor is another one."""
        if self.texts[self.at] != text:
            self.fail(what or repr(text))
        self.at += 1

    def name(self, what: str) -> str:
        """Move over a plain name and return it. Raises :class:`ParseError` if the token is no name."""
        text = self.texts[self.at]
        if _NAME.match(text) is None:
            self.fail(what)
        self.at += 1
        return text

    def string(self, what: str) -> str:
        """Move over a quoted string and return the text between the quotes."""
        text = self.texts[self.at]
        if len(text) < 2 or text[0] != '"':
            self.fail(what)
        self.at += 1
        return text[1:-1]

    def rest_of_line(self) -> str:
        """Move over the rest of the previous token's line and return its text."""
        line = self.lines[self.at - 1]
        start = self._column(self.at - 1) + len(self.texts[self.at - 1])
        while self.texts[self.at] and self.lines[self.at] == line:
            self.at += 1
        return self._line(line)[start:].strip()

    # --- places in the text -------------------------------------------------------------------

    def location(self) -> SourceLocation:
        """Return the file and line of the token at the cursor."""
        return SourceLocation(self.filename, self.lines[self.at])

    def _line(self, number: int) -> str:
        return self._source.split("\n")[number - 1]

    def _column(self, index: int) -> int:
        """Return the column, from 0, at which the token begins in its line."""
        line = self.lines[index]
        first = index
        while first > 0 and self.lines[first - 1] == line:
            first -= 1
        starts = [match.start() for match in _TOKEN.finditer(self._line(line))]
        return starts[index - first]

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        """Raise :class:`ParseError` about the token at the cursor, or at index ``at``."""
        index = self.at if at is None else at
        text, line = self.texts[index], self.lines[index]
        start = self._column(index) if text else len(self._line(line).rstrip())
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise ParseError(
            repr(shown) if text else "the end of the text",
            expected,
            file=self.filename,
            line=line,
            column=start + 1,
        )
