"""For the API pages: roles and literals of docstrings as Markdown code, tables as they stand."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?([^`<]+?)(?: <[^`]*>)?`")
_LITERAL = re.compile(r"(?<!`)``(?!`)(.+?)``(?!`)", re.DOTALL)
_BLOCK = re.compile(r"(\S?)[ ]*::$", re.MULTILINE)
_TABLE = re.compile(r"^(?:=+ +)+=+\n(?:.*\n)+?(?:=+ +)+=+\n(?:.*\n)+?(?:=+ +)+=+$", re.MULTILINE)
_ANCHOR = re.compile(r"PTX ISA: ?`#([\w-]+)`")
_TARGET = re.compile(r"^\.\. _(.+?):\s+(\S+)$", re.MULTILINE)
_LINK = re.compile(r"(?<!`)`([^`]+)`_")
_MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"


class Roles(Extension):
    """Rewrites every docstring as it is read."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = linked(obj.docstring.value)
        text = _ROLE.sub(r"`\1`", text)
        text = _LITERAL.sub(r"`\1`", text)
        text = _BLOCK.sub(lambda match: f"{match[1]}:" if match[1] else "", text)
        text = _TABLE.sub(lambda match: f"```text\n{match[0]}\n```", text)
        obj.docstring.value = _ANCHOR.sub(rf"[PTX ISA: \1]({_MANUAL}\1)", text)


def linked(text: str) -> str:
    """The text with its named links, whose addresses stand at its end, written out."""
    targets = dict(_TARGET.findall(text))

    def written(match: re.Match[str]) -> str:
        name = " ".join(match[1].split())
        return f"[{name}]({targets[name]})" if name in targets else match[0]

    return _LINK.sub(written, _TARGET.sub("", text))
