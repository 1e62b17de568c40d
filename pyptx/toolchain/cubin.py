"""What a cubin says of itself: the registers of each kernel.

A cubin is an ELF file. Its section ``.nv.info`` is a list of attributes; ``EIATTR_REGCOUNT`` has the symbol
of a kernel or function, and the registers that ptxas gave to its threads, as ``ptxas -v`` reports them.
NVIDIA does not document the section; ``cuobjdump -elf`` prints it.
"""

from __future__ import annotations

import struct

__all__ = ["registers_of"]

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
#: Where the ELF header has the section headers: their offset; their size, number, and that of the names.
_TABLE, _COUNTS = struct.Struct("<Q"), struct.Struct("<HHH")
_TABLE_AT, _COUNTS_AT = 0x28, 0x3A
#: A section header: name, type, flags, address, offset, size, link, info, alignment, size of an entry.
_SECTION = struct.Struct("<IIQQQQIIQQ")
#: A symbol: name, and what is of no interest here.
_SYMBOL = struct.Struct("<I20x")
#: An attribute: format, number, and its value or the size of what follows.
_ATTRIBUTE = struct.Struct("<BBH")
_SIZED, _REGISTERS = 4, 0x2F
_COUNT = struct.Struct("<II")


def registers_of(image: bytes) -> dict[str, int]:
    """Return the 32-bit registers of a thread for each kernel and function of a cubin, by name.

    Raises:
        ValueError: the image is no cubin.
    """
    if not image.startswith(_MAGIC):
        raise ValueError("not a cubin: the image is no ELF file of 64 bits")
    (start,) = _TABLE.unpack_from(image, _TABLE_AT)
    size, count, names = _COUNTS.unpack_from(image, _COUNTS_AT)
    headers = [_SECTION.unpack_from(image, start + size * number) for number in range(count)]

    def text(table: int, position: int) -> str:
        at: int = headers[table][4] + position
        return image[at : image.index(b"\0", at)].decode()

    sections = {text(names, header[0]): header for header in headers}
    found: dict[str, int] = {}
    if ".nv.info" not in sections or ".symtab" not in sections:
        return found
    symbols = sections[".symtab"]
    at, end = sections[".nv.info"][4], sections[".nv.info"][4] + sections[".nv.info"][5]
    while at < end:
        form, number, value = _ATTRIBUTE.unpack_from(image, at)
        at += _ATTRIBUTE.size
        if form != _SIZED:
            continue
        if number == _REGISTERS:
            symbol, registers = _COUNT.unpack_from(image, at)
            (name,) = _SYMBOL.unpack_from(image, symbols[4] + symbol * symbols[9])
            found[text(symbols[6], name)] = registers
        at += value
    return found
