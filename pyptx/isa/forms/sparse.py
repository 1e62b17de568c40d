"""Structured sparsity in registers: spcompress and spdecompress.

The lengths of their vectors are quotients that are rounded up. The notation has no expression for such a
length, so this module computes a case for each choice of modifiers.
"""

_ELEMENTS = {"b8": 8, "b16": 16}
_INDICES = {"b2": 2, "b4": 4}
_REPEATS = (1, 2, 4, 8, 16, 32, 64)
_FACTORS = ((1, 2), (1, 4), (1, 8), (1, 16), (2, 4), (2, 8), (2, 16), (4, 8), (4, 16))
#: Largest number of registers in all vectors of one instruction together.
_MOST_REGISTERS = 253


def _words(bits: int) -> int:
    """Return the number of 32-bit registers that ``bits`` bits need."""
    return -(-bits // 32)


def _compress_metadata() -> str:
    """Return the lengths of spcompress's mdata, by modifiers: two indices for every four elements."""
    return ", ".join(
        f".{element}.{index}.x{n} b32 x {-(-n * _INDICES[index] // _ELEMENTS[element])}"
        for element in _ELEMENTS
        for index in _INDICES
        for n in _REPEATS
    )


def _decompress(bits: dict[str, int], kept: bool) -> str:
    """Return the lengths of a vector of spdecompress, by modifiers.

    The vector has ``bits`` bits for each kept element, or for each element of the dense vector.
    """
    return ", ".join(
        f".sp::{source}:{dense}.{part}.x{n} b32 x {_words((source if kept else dense) * bits[part] * n)}"
        for source, dense in _FACTORS
        for part in bits
        for n in _REPEATS
    )


TEXT = rf"""
[spcompress] "Keep two of every four elements, and their indices; spdesc says which."
spcompress.elemsize.idxsize.sp::2:4.num  =mdata: by, =cdata: b32 x .num, data: b32 x .num*2, spdesc: b32 reg;
  .elemsize = {{ .b8, .b16 }}
  .idxsize = {{ .b2, .b4 }}
  .num = {{ .x1, .x2, .x4, .x8, .x16, .x32, .x64 }}
  mdata by .elemsize.idxsize.num = {{ {_compress_metadata()} }}
  since 9.4 on sm_107a
  see data-movement-and-conversion-instructions-spcompress

[spdecompress] "Put elements at the positions that their indices name, and zeroes elsewhere."
spdecompress.elemsize.idxsize.spfactor.num  =data: by, mdata: by reg, cdata: by reg;
  .elemsize = {{ .b8, .b16 }}
  .idxsize = {{ .b2, .b4 }}
  .spfactor = {{ {", ".join(f".sp::{a}:{b}" for a, b in _FACTORS)} }}
  .num = {{ .x1, .x2, .x4, .x8, .x16, .x32, .x64 }}
  data by .spfactor.elemsize.num = {{ {_decompress(_ELEMENTS, False)} }}
  mdata by .spfactor.idxsize.num = {{ {_decompress(_INDICES, True)} }}
  cdata by .spfactor.elemsize.num = {{ {_decompress(_ELEMENTS, True)} }}
  since 9.4 on sm_107a
  check registers_suffice
  see data-movement-and-conversion-instructions-spdecompress
"""


def registers_suffice(chosen: dict[str, str]) -> str | None:
    """Refuse groups that do not fit a register, indices that are too narrow, and vectors of illegal size."""
    source, dense = map(int, chosen["spfactor"].removeprefix("sp::").split(":"))
    element, index = _ELEMENTS[chosen["elemsize"]], _INDICES[chosen["idxsize"]]
    repeats = int(chosen["num"][1:])
    if source * element > 32:
        return f".{chosen['spfactor']} with .{chosen['elemsize']} takes {source * element} bits; at most 32 are allowed"
    if dense > 1 << index:
        return f".{chosen['idxsize']} is too narrow for the {dense} positions of .{chosen['spfactor']}"
    bits = dense * element * repeats
    if not 32 <= bits <= 4096:
        return f"the dense vector has {bits} bits; expected 32 to 4096"
    total = _words(bits) + _words(source * index * repeats) + _words(source * element * repeats)
    if total > _MOST_REGISTERS:
        return f"the vectors have {total} registers; at most {_MOST_REGISTERS} are allowed"
    return None
