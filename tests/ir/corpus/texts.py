"""The compiled texts that are kept: an xz file of JSON for each architecture and kind of source."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("texts")


@cache
def texts(arch: str, sort: str) -> dict[str, str]:
    """The texts of an architecture by name, of ``"cuda"`` or ``"triton"``."""
    return dict(json.loads(lzma.decompress((FOLDER / f"{arch}.{sort}.xz").read_bytes())))


def cuda_text(source: str, build: str = "optimized", arch: str = "sm_90a") -> str:
    """What nvcc made of a source."""
    return texts(arch, "cuda")[f"{source}-{build}"]


def triton_text(name: str, arch: str) -> str:
    """What Triton made of a case."""
    return texts(arch, "triton")[name]


def write(arch: str, sort: str, found: dict[str, str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    data = json.dumps(found, indent=0).encode()
    (FOLDER / f"{arch}.{sort}.xz").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
