"""Console blocks as the site shows them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_left_out_is_marked_in_console_blocks_alone() -> None:
    spec = importlib.util.spec_from_file_location("console", ROOT / "docs/console.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = "a ...\n```console\n$ pyptx isa a...b\nhead ... tail\n...\nend\n```\n```python\nx[...]\n```\n"
    shown = "a ...\n```console\n$ pyptx isa a...b\nhead … tail\n  ⋮\nend\n```\n```python\nx[...]\n```\n"
    assert module.on_page_markdown(page, page=None) == shown
