"""The machine instructions that stand for a PTX instruction where the machine code is not known.

Owns the default expansion: what ptxas 13 makes of an instruction for sm_90a and sm_100a in most places, one
machine opcode with the modifiers that :mod:`.opcodes` looks at for each machine instruction. Code of
constants, addresses and moves that ptxas removes is not foreseen, so that the default is rather too slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

__all__ = ["expansion", "products_of"]

#: For an instruction that is not listed.
_OTHER = ("IADD3",)
_TYPE = re.compile(r"(?:pred|[bsuf](?P<bits>8|16|32|64|128)|(?:bf16|f16|tf32)(?:x2)?|f32x2|e\dm\d(?:x\d)?)$")
_FLOATS = re.compile(r"b?f16(x2)?$")
_MMA_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")

_FLOAT_OPCODES = {
    "add": ("HADD2", "FADD", "FADD2", "DADD"),
    "sub": ("HADD2", "FADD", "FADD2", "DADD"),
    "mul": ("HMUL2", "FMUL", "FMUL2", "DMUL"),
    "fma": ("HFMA2", "FFMA", "FFMA2", "DFMA"),
    "mad": ("HFMA2", "FFMA", "FFMA2", "DFMA"),
    "min": ("HMNMX2", "FMNMX", "FMNMX", "DMNMX"),
    "max": ("HMNMX2", "FMNMX", "FMNMX", "DMNMX"),
    "abs": ("HADD2", "FADD", "FADD2", "DADD"),
    "neg": ("HADD2", "FADD", "FADD2", "DADD"),
    "setp": ("HSETP2", "FSETP", "FSETP", "DSETP"),
    "set": ("HSET2", "FSET", "FSET", "DSETP"),
    "copysign": ("LOP3", "LOP3", "LOP3", "LOP3"),
    "testp": ("HSETP2", "FSETP", "FSETP", "DSETP"),
}
#: Machine opcodes of integers of up to 32 bits, and how many of them 64 bits take.
_INTEGER_OPCODES = {
    "add": ("IADD3", 2),
    "sub": ("IADD3", 2),
    "addc": ("IADD3", 2),
    "subc": ("IADD3", 2),
    "mul": ("IMAD", 4),
    "mul24": ("IMAD", 1),
    "mad": ("IMAD", 4),
    "madc": ("IMAD", 4),
    "mad24": ("IMAD", 1),
    "sad": ("VABSDIFF", 4),
    "min": ("VIMNMX", 4),
    "max": ("VIMNMX", 4),
    "abs": ("IABS", 3),
    "neg": ("IADD3", 2),
    "setp": ("ISETP", 2),
    "set": ("ISETP", 2),
    "selp": ("SEL", 2),
    "slct": ("SEL", 3),
    "and": ("LOP3", 2),
    "or": ("LOP3", 2),
    "xor": ("LOP3", 2),
    "not": ("LOP3", 2),
    "cnot": ("ISETP", 2),
    "lop3": ("LOP3", 1),
    "shl": ("SHF", 2),
    "shr": ("SHF", 2),
    "shf": ("SHF", 1),
    "prmt": ("PRMT", 1),
    "bfe": ("SHF", 4),
    "bfi": ("LOP3", 4),
    "bmsk": ("BMSK", 1),
    "szext": ("SGXT", 1),
    "brev": ("BREV", 2),
    "bfind": ("FLO", 3),
    "clz": ("FLO", 3),
    "popc": ("POPC", 3),
    "fns": ("FLO", 1),
    "dp4a": ("IDP", 1),
    "dp2a": ("IDP", 1),
    "mov": ("MOV", 2),
}
_FIXED = {
    "shfl": ("SHFL",),
    "vote": ("VOTE",),
    "activemask": ("VOTE",),
    "match": ("MATCH",),
    "redux": ("REDUX",),
    "elect": ("ELECT",),
    "bar": ("BAR",),
    "barrier": ("BAR",),
    "bra": ("BRA",),
    "brx": ("BRX",),
    "exit": ("EXIT",),
    "ret": ("RET",),
    "call": ("CALL", "MOV"),
    "trap": ("BPT",),
    "nanosleep": ("NANOSLEEP",),
    "setmaxnreg": ("USETMAXREG",),
    "ldmatrix": ("LDSM",),
    "stmatrix": ("STSM",),
    "movmatrix": ("MOVM",),
    "prefetch": ("CCTL",),
    "griddepcontrol": ("ACQBULK",),
    "isspacep": ("ISETP", "ISETP"),
    "cvta": (),
    "mapa": ("PRMT",),
    "getctarank": ("SHF",),
    "multimem": ("LDGMC",),
    "pmevent": (),
    "discard": ("CCTL",),
    "applypriority": ("CCTL",),
}
_MUFU = {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"}


def _types(modifiers: Sequence[str]) -> list[str]:
    return [each for each in modifiers if _TYPE.match(each)]


def _bits(kind: str) -> int:
    match = _TYPE.match(kind)
    return int(match["bits"]) if match is not None and match["bits"] else 32


def _plain(opcode: str, kind: str, modifiers: Sequence[str]) -> tuple[str, ...] | None:
    """Return the expansion of arithmetic and logic, by the type of the operands."""
    half, single, packed, double = _FLOAT_OPCODES.get(opcode, ("", "", "", ""))
    if half:
        if _FLOATS.match(kind):
            return (half,)
        if kind in ("f32", "f32x2", "f64"):
            return ({"f32": single, "f32x2": packed, "f64": double}[kind],)
    if opcode not in _INTEGER_OPCODES:
        return None
    name, wide = _INTEGER_OPCODES[opcode]
    if kind == "pred":
        return ("PLOP3",)
    if "wide" in modifiers:
        return ("IMAD.WIDE",) if _bits(kind) <= 32 else ("IMAD",) * 4
    return (name,) * (wide if _bits(kind) == 64 else 1)


def _divide(opcode: str, kind: str, modifiers: Sequence[str]) -> tuple[str, ...]:
    if kind == "f32":
        if "approx" in modifiers:
            return ("MUFU", "FMUL", "FMUL")
        return ("MUFU", "FCHK", "FFMA", "FFMA", "FFMA", "FFMA", "FFMA", "BRA")
    if kind == "f64":
        return ("MUFU", "FSETP", *("DFMA",) * 8, "FFMA", "FSETP", "BRA")
    if _bits(kind) == 64:
        return ("I2F.U64", "MUFU", "F2I.U64", *("IMAD",) * 30, *("IADD3",) * 16, *("SEL",) * 8)
    return ("I2F", "MUFU", "IADD3", "F2I", "IMAD", "IMAD", "IMAD", "IMAD", "ISETP", "IADD3", "ISETP", "SEL")


def _functions(opcode: str, kind: str, modifiers: Sequence[str]) -> tuple[str, ...]:
    if kind == "f64":
        return ("MUFU", *("DFMA",) * 6)
    if "approx" not in modifiers:
        return ("MUFU", "FFMA", "FFMA", "FFMA", "FFMA", "FSETP", "BRA")
    if kind == "f32" and "ftz" not in modifiers and opcode in ("ex2", "lg2", "rsqrt", "sqrt"):
        return ("FSETP", "FMUL", "MUFU", "FMUL")
    return ("FMUL", "MUFU") if opcode in ("sin", "cos") else ("MUFU",)


def _convert(modifiers: Sequence[str]) -> tuple[str, ...]:
    kinds = _types(modifiers)
    if len(kinds) < 2:
        return ("F2FP",)
    to, of = kinds[0], kinds[-1]
    if "f64" in (to, of):
        return ("F2F.F64",) if to[0] in "fb" and of[0] in "fb" else ("F2I.F64",)
    integers = [each[0] in "su" for each in (to, of)]
    if all(integers):
        return ("PRMT",) * (2 if _bits(to) == 64 else 1)
    if integers[0]:
        return ("F2I",) if _bits(to) < 64 else ("F2I.U64",)
    if integers[1]:
        return ("I2F",) if _bits(of) < 64 else ("I2F.U64",)
    if to == "f32":
        return ("HADD2",)
    return ("F2FP",)


def _load(modifiers: Sequence[str], shared: str, local: str, other: str) -> tuple[str, ...]:
    for space in modifiers:
        if space.startswith("shared"):
            return (shared,)
        if space == "local":
            return (local,)
        if space.startswith("param") or space == "const":
            return ("LDC",)
    return (other,)


def _mma(modifiers: Sequence[str]) -> tuple[str, ...]:
    kinds = _types(modifiers)
    kind = kinds[1] if len(kinds) > 1 else "f16"
    m, n, k = _product_shape(modifiers) or (16, 8, 16)
    # An opcode has at most 16 rows and 8 columns; wmma has more of both.
    count = max(1, m * n // 128)
    if count > 1 and kind == "tf32":  # ptxas halves K of wmma, too
        count, k = 2 * count, k // 2
    spelled = f"{16 if m * n >= 128 else 8}{8}{k}"
    if kind == "f64":
        return (f"DMMA.{spelled}",) * count
    if kind[0] in "su":
        return (f"IMMA.{spelled}.{kind.upper()}",) * count
    if kind.startswith("e"):
        return (f"QMMA.{spelled}",) * count
    return (f"HMMA.{spelled}" + (".TF32" if kind == "tf32" else ""),) * count


def _product_shape(modifiers: Sequence[str]) -> tuple[int, int, int] | None:
    """Return M, N and K of a product of a warp; None if no modifier has them."""
    shape = next((match for each in modifiers if (match := _MMA_SHAPE.match(each))), None)
    return None if shape is None else (int(shape[1]), int(shape[2]), int(shape[3]))


def products_of(opcode: str, modifiers: Sequence[str]) -> int:
    """Return the multiply-adds of a warp's product, ``mma`` or ``wmma.mma``; 0 for other instructions."""
    if opcode != "mma" and (opcode != "wmma" or "mma" not in modifiers):
        return 0
    shape = _product_shape(modifiers)
    return 0 if shape is None else shape[0] * shape[1] * shape[2]


def _barriers(modifiers: Sequence[str]) -> tuple[str, ...]:
    if "try_wait" in modifiers or "test_wait" in modifiers:
        return ("SYNCS.PHASECHK",)
    return ("SYNCS",)


def _fence(modifiers: Sequence[str]) -> tuple[str, ...]:
    if "proxy" in modifiers and "async" in modifiers:
        return ("MEMBAR.ALL.CTA", "FENCE.VIEW.ASYNC.S")
    if any(each.startswith("async") and "shared" in each for each in modifiers):
        return ("MEMBAR.ALL.CTA", "FENCE.VIEW.ASYNC.S")
    if {"gpu", "gl", "sys", "cluster"} & set(modifiers) and "mbarrier_init" not in modifiers:
        return ("MEMBAR.ALL.GPU",)
    return ("MEMBAR.ALL.CTA",)


def _copy(modifiers: Sequence[str]) -> tuple[str, ...]:
    if "bulk" not in modifiers:
        return ("LDGDEPBAR",) if "commit_group" in modifiers or "wait_group" in modifiers else ("LDGSTS",)
    if "commit_group" in modifiers:
        return ("UTMACMDFLUSH",)
    if "wait_group" in modifiers:
        return ("DEPBAR",)
    # The unit takes uniform registers.
    return ("R2UR", "R2UR", "R2UR", "UTMALDG")


def _tcgen05(modifiers: Sequence[str]) -> tuple[str, ...]:
    first = modifiers[0] if modifiers else ""
    if first == "ld":
        return ("R2UR", "LDTM")
    if first == "st":
        return ("R2UR", "STTM")
    if first in ("mma", "cp", "shift"):
        return ("R2UR", "R2UR", "R2UR", "R2UR", "UTCHMMA")
    if first in ("commit", "alloc", "dealloc", "relinquish_alloc_permit"):
        return ("R2UR", "UTCBAR")
    return ("NOP",)


def _wgmma(modifiers: Sequence[str]) -> tuple[str, ...]:
    if modifiers and modifiers[0] == "mma_async":
        return ("R2UR", "R2UR", "HGMMA")
    return ("WARPGROUP",)


_BY_MODIFIERS: dict[str, Callable[[Sequence[str]], tuple[str, ...]]] = {
    "cvt": _convert,
    "ld": lambda modifiers: _load(modifiers, "LDS", "LDL", "LDG"),
    "ldu": lambda modifiers: _load(modifiers, "LDS", "LDL", "LDG"),
    "st": lambda modifiers: _load(modifiers, "STS", "STL", "STG"),
    "atom": lambda modifiers: _load(modifiers, "ATOMS", "ATOMG", "ATOMG"),
    "red": lambda modifiers: _load(modifiers, "ATOMS", "REDG", "REDG"),
    "mma": _mma,
    "wmma": lambda modifiers: _mma(modifiers) if "mma" in modifiers else ("LDSM",),
    "mbarrier": _barriers,
    "fence": _fence,
    "membar": _fence,
    "cp": _copy,
    "tcgen05": _tcgen05,
    "wgmma": _wgmma,
}


def expansion(opcode: str, modifiers: Sequence[str]) -> tuple[str, ...]:
    """Return the opcodes of the machine instructions that a PTX instruction becomes in most places.

    Args:
        opcode: the part before the first dot.
        modifiers: the other parts.
    """
    if opcode in _FIXED:
        return _FIXED[opcode]
    if opcode in _BY_MODIFIERS:
        return _BY_MODIFIERS[opcode](modifiers)
    kinds = _types(modifiers)
    kind = kinds[-1] if kinds else "b32"
    if opcode in ("div", "rem"):
        return _divide(opcode, kind, modifiers)
    if opcode in _MUFU:
        return _functions(opcode, kind, modifiers)
    return _plain(opcode, kind, modifiers) or _OTHER
