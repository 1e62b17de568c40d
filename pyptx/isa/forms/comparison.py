"""Comparison and selection instructions."""

TEXT = r"""
[setp] "Compare and set a predicate, and its complement with p|q."
setp.cmp.type  =p{|q}: pred, a: .type, b: .type;
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
  check comparison_fits
  see comparison-and-selection-instructions-setp

[selp] "Select one of two values by a predicate."
selp.type  =d: .type, a: .type, b: .type, c: pred;
  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
  see comparison-and-selection-instructions-selp
"""

_ANY = {"eq", "ne"}
_SIGNED = _ANY | {"lt", "le", "gt", "ge"}
_UNSIGNED = _SIGNED | {"lo", "ls", "hi", "hs"}
_FLOAT = _SIGNED | {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}


def comparison_fits(chosen: dict[str, str]) -> str | None:
    """Which comparisons a type has."""
    kind = chosen["type"][0]
    allowed = {"b": _ANY, "s": _SIGNED, "u": _UNSIGNED, "f": _FLOAT}[kind]
    if chosen["cmp"] not in allowed:
        wanted = ", ".join("." + c for c in sorted(allowed))
        return f".{chosen['cmp']} does not compare .{chosen['type']}; it has {wanted}"
    return None
