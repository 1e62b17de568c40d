"""Console blocks as the site shows them: what a test leaves open is marked as left out.

The tests of the pages compare the output of a ``console`` block and take ``...`` for any text.  A reader of
the site sees a vertical ellipsis for lines that are left out, and one character for a part of a line.
"""

from __future__ import annotations

import re
from typing import Any

_BLOCK = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page's text before it is rendered; mkdocs calls this."""
    return _BLOCK.sub(lambda block: _shown(block.group()), markdown)


def _shown(block: str) -> str:
    lines = ["  \N{VERTICAL ELLIPSIS}" if line == "..." else line for line in block.split("\n")]
    return "\n".join(
        line if line.startswith("$ ") else line.replace("...", "\N{HORIZONTAL ELLIPSIS}") for line in lines
    )
