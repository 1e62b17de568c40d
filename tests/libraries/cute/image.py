"""The PTX text inside the machine code that CuTe DSL compiles.

Owns :func:`text_of`. ptxas keeps the text that it has assembled in a section of the ELF file, for debuggers.
"""

from __future__ import annotations

import ctypes
import struct

__all__ = ["text_of"]

_FATBIN = 0xBA55ED50
_SECTION = b".nv_debug_ptx_txt"


def text_of(address: int) -> str:
    """Return the PTX text of the module image at ``address``, a fat binary with one ELF file."""
    magic, _, header, size = struct.unpack("<IHHQ", ctypes.string_at(address, 16))
    if magic != _FATBIN:
        raise ValueError(f"the image at {address:#x} begins with {magic:#x}, which is no fat binary")
    raw = ctypes.string_at(address, header + size)
    elf = raw[raw.index(b"\x7fELF") :]
    (start,) = struct.unpack_from("<Q", elf, 40)
    each, count, of_names = struct.unpack_from("<HHH", elf, 58)
    # Of each section: offset of the name, type, flags, address, offset, size.
    sections = [struct.unpack_from("<IIQQQQ", elf, start + i * each) for i in range(count)]
    names = elf[sections[of_names][4] :][: sections[of_names][5]]
    for name, _, _, _, offset, length in sections:
        if names[name:].startswith(_SECTION + b"\0"):
            return elf[offset : offset + length].replace(b"\0", b"\n").decode()
    raise ValueError("the image has no PTX text")
