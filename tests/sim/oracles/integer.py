"""What the integer, logic, comparison and video forms must compute: see :mod:`tests.sim.oracles.words`.

``chosen`` has, beside the modifiers, how operands are written that are no plain registers: ``{}.b0``, ``-{}.h1``.
Where an H200 does something else than the manual says, the function names it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from tests.sim.oracles.words import _ORDER as ORDER
from tests.sim.oracles.words import (
    F32,
    FORMATS,
    Chosen,
    Format,
    bits_of,
    clamp,
    flush,
    integer,
    is_nan,
    limits,
    wrap,
)

WORD = 0xFFFFFFFF


def split(raw: int, kind: str) -> list[int]:
    """Elements of a packed value, the lowest first, as raw bits."""
    lanes = int(kind[-1])
    width = 32 // lanes
    return [raw >> width * i & ((1 << width) - 1) for i in range(lanes)]


def join(elements: Sequence[int]) -> int:
    width = 32 // len(elements)
    return sum((e & ((1 << width) - 1)) << width * i for i, e in enumerate(elements))


def each(kind: str, of_one: Callable[..., int]) -> Callable[..., int]:
    """A function of elements, as one of packs of ``kind``."""
    return lambda *packs: join(
        [of_one(*parts) for parts in zip(*(split(p, kind) for p in packs), strict=True)]
    )


# --- integers ---------------------------------------------------------------------------------


def _packed(name: str, kind: str = "") -> Callable[..., int]:
    """A form of packs whose elements do what a form of integers does."""

    def expected(c: Chosen, *packs: int) -> int:
        pack = kind or c["type"]
        element = pack[: pack.index("x")]

        def of_one(*raw: int) -> int:
            values = [integer(r, element) for r in raw]
            result = {
                "add": lambda a, b: a + b,
                "sub": lambda a, b: a - b,
                "neg": lambda a: -a,
                "min": min,
                "max": max,
            }[name](*values)
            result = clamp(result, element) if "sat" in c else result
            return max(result, 0) if "relu" in c else result

        return each(pack, of_one)(*packs)

    return expected


def _relu(choose: Callable[[int, int], int]) -> Callable[..., int]:
    return lambda c, a, b: wrap(max(choose(integer(a, "s32"), integer(b, "s32")), 0), "u32")


def _abs(c: Chosen, a: int) -> int:
    return wrap(abs(integer(a, c["type"])), c["type"])


def _sad(c: Chosen, a: int, b: int, addend: int) -> int:
    return wrap(abs(integer(a, c["type"]) - integer(b, c["type"])) + addend, c["type"])


def _mad_sat(c: Chosen, a: int, b: int, addend: int) -> int:
    high = integer(a, "s32") * integer(b, "s32") >> 32
    return wrap(clamp(high + integer(addend, "s32"), "s32"), "u32")


def _half48(c: Chosen, a: int, b: int) -> int:
    kind = c.get("type", "s32")[0] + "24"
    product = integer(a, kind) * integer(b, kind)
    return product if c.get("half") == "lo" else product >> 16


def _mad24(c: Chosen, a: int, b: int, addend: int) -> int:
    return wrap(_half48(c, a, b) + addend, "u32")


def _mad24_sat(c: Chosen, a: int, b: int, addend: int) -> int:
    return wrap(clamp(_half48(c, a, b) + integer(addend, "s32"), "s32"), "u32")


def _clmad(c: Chosen, a: int, b: int, addend: int) -> int:
    product = 0
    for place in range(64):
        if b >> place & 1:
            product ^= a << place
    return (product & ((1 << 64) - 1) if c["half"] == "lo" else product >> 64) ^ addend


def _dp(c: Chosen, a: int, b: int, addend: int) -> int:
    signs = c["atype"][0], c["btype"][0]
    if "half" in c:
        lefts = [integer(x, signs[0] + "16") for x in split(a, "x2")]
        rights = [integer(x, signs[1] + "8") for x in split(b, "x4")][2 * (c["half"] == "hi") :]
    else:
        lefts = [integer(x, signs[0] + "8") for x in split(a, "x4")]
        rights = [integer(x, signs[1] + "8") for x in split(b, "x4")]
    return wrap(addend + sum(x * y for x, y in zip(lefts, rights, strict=False)), "u32")


def _bfind(c: Chosen, a: int) -> int:
    kind = c["type"]
    top = bits_of(kind) - 1
    sign = a >> top & 1 if kind[0] == "s" else 0
    for place in range(top, -1, -1):
        if (a >> place & 1) != sign:
            return top - place if "shiftamt" in c else place
    return WORD


def _fns(c: Chosen, mask: int, base: int, offset: int) -> int:
    step = integer(offset, "s32")
    if step == -(1 << 31):
        return 0  # of no meaning, and what an H200 says
    places = [base] if step == 0 else range(base, 32) if step > 0 else range(base, -1, -1)
    found = [p for p in places if mask >> p & 1] if base < 32 else []
    number = max(abs(step), 1)
    return found[number - 1] if number <= len(found) else WORD


def _brev(c: Chosen, a: int) -> int:
    width = bits_of(c["type"])
    return sum((a >> i & 1) << (width - 1 - i) for i in range(width))


def _bfe(c: Chosen, a: int, b: int, length: int) -> int:
    kind, top = c["type"], bits_of(c["type"]) - 1
    place, count = b & 255, length & 255
    sign = a >> min(place + count - 1, top) & 1 if kind[0] == "s" and count else 0
    bits = [a >> place + i & 1 if i < count and place + i <= top else sign for i in range(top + 1)]
    return sum(bit << i for i, bit in enumerate(bits))


def _bfi(c: Chosen, a: int, b: int, at: int, length: int) -> int:
    top, place = bits_of(c["type"]) - 1, at & 255
    for i in range(length & 255):
        if place + i <= top:
            b = b & ~(1 << place + i) | (a >> i & 1) << place + i
    return b


def _szext(c: Chosen, a: int, b: int) -> int:
    count = b & 31 if c["mode"] == "wrap" else min(b, 32)
    return wrap(integer(a, c["type"][0] + str(count)), "u32") if count else 0


def _bmsk(c: Chosen, a: int, b: int) -> int:
    place, count = (a & 31, b & 31) if c["mode"] == "wrap" else (a, b)
    return sum(1 << i for i in range(32) if place <= i < place + count)


# --- logic ------------------------------------------------------------------------------------


def _lop3(c: Chosen, a: int, b: int, third: int, table: int) -> int:
    return sum(
        (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (third >> i & 1)) & 1) << i for i in range(32)
    )


def _lop3_bool(c: Chosen, a: int, b: int, third: int, table: int, q: int) -> tuple[int, int]:
    result = _lop3(c, a, b, third, table)
    return result, combined(c, result != 0, q)


def combined(c: Chosen, holds: bool, q: int) -> int:
    return int({"and": operator.and_, "or": operator.or_, "xor": operator.xor}[c["bool"]](holds, bool(q)))


def _shf(c: Chosen, a: int, b: int, amount: int) -> int:
    count = min(amount, 32) if c["mode"] == "clamp" else amount & 31
    pair = b << 32 | a
    return (pair << count >> 32 if c["dir"] == "l" else pair >> count) & WORD


def _prmt(c: Chosen, a: int, b: int, selector: int) -> int:
    source = split(a, "x4") + split(b, "x4")
    first = selector & 3
    if "mode" not in c:
        result = []
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = source[nibble & 7]
            result.append((255 if byte & 128 else 0) if nibble & 8 else byte)
        return join(result)
    order = {
        "f4e": [first + i for i in range(4)],
        "b4e": [(first - i) % 8 for i in range(4)],
        "rc8": [first] * 4,
        "ecl": [max(first, i) for i in range(4)],
        "ecr": [min(first, i) for i in range(4)],
        "rc16": [2 * (first & 1) + i % 2 for i in range(4)],
    }[c["mode"]]
    return join([source[i] for i in order])


# --- comparison -------------------------------------------------------------------------------


def magnitude(raw: int, f: Format) -> int:
    """A number that orders as the float does: its bits are a sign and a magnitude."""
    return -(raw & ~f.sign) if raw & f.sign else raw


def holds(name: str, kind: str, a: int, b: int, *, ftz: bool = False) -> bool:
    if kind not in FORMATS:
        return bool(ORDER[name](integer(a, kind), integer(b, kind)))
    f: Format = FORMATS[kind]
    if ftz:
        a, b = flush(a, f), flush(b, f)
    unordered = is_nan(a, f) or is_nan(b, f)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return len(name) == 3  # equ, neu, ltu ...
    return bool(ORDER[name[:2]](magnitude(a, f), magnitude(b, f)))


def _compared(c: Chosen, kind: str, a: int, b: int, q: tuple[int, ...]) -> int:
    truth = holds(c["cmp"], kind, a, b, ftz="ftz" in c)
    return combined(c, truth, q[0]) if q else int(truth)


def _setp_ftz(c: Chosen, a: int, b: int) -> tuple[int, int]:
    truth = holds(c["cmp"], "f32", a, b, ftz=True)
    return int(truth), int(not truth)


def _setp_bool(c: Chosen, a: int, b: int, q: int) -> tuple[int, int]:
    truth = holds(c["cmp"], c["type"], a, b, ftz="ftz" in c)
    return combined(c, truth, q), combined(c, not truth, q)


def _setp_of(kind: str) -> Callable[..., int]:
    return lambda c, a, b, *q: _compared(c, kind, a, b, q)


def _setp_packed(kind: str) -> Callable[..., tuple[int, int]]:
    def expected(c: Chosen, a: int, b: int, *q: int) -> tuple[int, int]:
        pairs = zip(split(a, "x2"), split(b, "x2"), strict=True)
        low, high = (_compared(c, kind, x, y, q) for x, y in pairs)
        return low, high

    return expected


ONES = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}


def _set(source: str = "", target: str = "") -> Callable[..., int]:
    """``set`` of one value; types that the modifiers do not name are given."""

    def expected(c: Chosen, a: int, b: int, *q: int) -> int:
        kind = target or c["dtype"]
        one = ONES.get(kind) or wrap(-1, kind)
        return one if _compared(c, source or c["type"], a, b, q) else 0

    return expected


def _set_packed(kind: str) -> Callable[..., int]:
    def expected(c: Chosen, a: int, b: int, *q: int) -> int:
        one = ONES.get(c["dtype"].removesuffix("x2"), 0xFFFF)
        return each("x2", lambda x, y: one * _compared(c, kind, x, y, q))(a, b)

    return expected


def _set_elements(c: Chosen, a: int, b: int) -> int:
    kind = c["type"]
    element = kind[: kind.index("x")]
    return each(kind, lambda x, y: -holds(c["cmp"], element, x, y))(a, b)


def _slct_float(c: Chosen, a: int, b: int, by: int) -> int:
    by = flush(by) if "ftz" in c else by
    return b if is_nan(by, F32) or (by >> 31 and by != F32.sign) else a


# --- video ------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) // 2,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}


def selector(c: Chosen, name: str) -> str:
    return c.get(name, "").partition(".")[2]


def place(which: str) -> tuple[int, int]:
    """First bit and width of ``b2``, ``h1``, or of all."""
    if not which:
        return 0, 32
    width = 8 if which[0] == "b" else 16
    return width * int(which[1]), width


def part(c: Chosen, name: str, raw: int) -> int:
    first, width = place(selector(c, name))
    return integer(raw >> first, f"{c.get(name + 'type', 'u32')[0]}{width}")


def _video(name: str) -> Callable[..., int]:
    def expected(c: Chosen, a: int, b: int, *third: int) -> int:
        x, y = part(c, "a", a), part(c, "b", b)
        kind = c.get("dtype", c["atype"])  # vset: ptxas takes the first operand's
        first, width = place(selector(c, "d"))
        if name == "vset":
            result = int(ORDER[c["cmp"]](x, y))
        elif name in ("vshl", "vshr"):
            count = min(y, 32) if c["mode"] == "clamp" else y & 31
            result = x << count if name == "vshl" else x >> count
        else:
            result = OPERATIONS[name](x, y)
        if "sat" in c:
            if name in ("vshl", "vshr"):
                # A shift has 34 bits, and ptxas saturates it to a word, not to the part.
                result = clamp(integer(result, "s34"), kind)
            elif width < 32:
                # ptxas compares with the upper limit alone, unsigned numbers of 64 bits.
                result = min(integer(result, "u64"), limits(f"{kind[0]}{width}")[1])
            elif kind == "u32":
                # It looks for a negative result alone.
                result = max(result, 0)
            else:
                result = clamp(result, kind)
        if "op2" in c:
            # ptxas widens the sum, or the saturated shift, to 64 bits by its bit 31, and then compares as the
            # type says, which of unsigned values is not what the manual says.
            if name in ("vadd", "vsub") or ("sat" in c and name in ("vshl", "vshr")):
                result = integer(result, "s32")
            addend = integer(third[0], kind)
            if c["op2"] == "add":
                return wrap(result + addend, "u32")
            choose = min if c["op2"] == "min" else max
            wide = "s64" if kind == "s32" else "u64"
            return wrap(choose(integer(result, wide), addend), "u32")
        if third:
            field = (1 << width) - 1 << first
            return third[0] & ~field | result << first & field
        return wrap(result, "u32")

    return expected


def _vmad(c: Chosen, a: int, b: int, addend: int) -> int:
    minus = [c.get(name, "").startswith("-") for name in "abc"]
    # ptxas multiplies whole words as signed ones, and adds such.
    product = integer(part(c, "a", a), "s32") * integer(part(c, "b", b), "s32")
    total = integer(addend, "s32")
    total = (-product if minus[0] != minus[1] else product) + (-total if minus[2] else total) + ("po" in c)
    signed = "s32" in (c["atype"], c["btype"]) or minus[0] != minus[1] or minus[2]
    count = int(c.get("scale", "shr0")[3:])
    total = integer(total, "s64" if signed or not count else "u64") >> count
    if "sat" in c:
        total = clamp(integer(total, "s64"), "s32" if signed else "u32")
    return wrap(total, "u32")


def _digits(c: Chosen, name: str, default: str) -> list[int]:
    return [int(d) for d in reversed(selector(c, name)[1:] or default)]


def _video_lanes(name: str, lanes: int) -> Callable[..., int]:
    kind, width = f"x{lanes}", 32 // lanes
    low = "3210"[-lanes:]
    high = "".join(str(int(d) + lanes) for d in low)

    def expected(c: Chosen, a: int, b: int, third: int) -> int:
        source = split(a, kind) + split(b, kind)
        xs = [integer(source[i], f"{c['atype'][0]}{width}") for i in _digits(c, "a", low)]
        ys = [integer(source[i], f"{c['btype'][0]}{width}") for i in _digits(c, "b", high)]
        compute = OPERATIONS.get(name) or (lambda x, y: int(ORDER[c["cmp"]](x, y)))
        results = [compute(x, y) for x, y in zip(xs, ys, strict=True)]
        written = _digits(c, "d", low)
        if "add" in c:
            return wrap(third + sum(results[i] for i in written), "u32")
        if "sat" in c:
            results = [clamp(r, f"{c['dtype'][0]}{width}") for r in results]
        return join([results[i] if i in written else old for i, old in enumerate(split(third, kind))])

    return expected


EXPECTED: dict[str, Callable[..., Any]] = {
    "add.sat.u32": lambda c, a, b: min(a + b, WORD),
    "abs.int": _abs,
    "sad": _sad,
    "mad.sat": _mad_sat,
    "mul24": lambda c, a, b: wrap(_half48(c, a, b), "u32"),
    "mad24": _mad24,
    "mad24.sat": _mad24_sat,
    "clmad": _clmad,
    "dp4a": _dp,
    "dp2a": _dp,
    "add.packed16": _packed("add"),
    "add.packed16.sat": _packed("add"),
    "add.packed8": _packed("add"),
    "sub.packed8": _packed("sub"),
    "neg.packed8": _packed("neg", "s8x4"),
    "min.packed16": _packed("min"),
    "min.packed8": _packed("min"),
    "max.packed16": _packed("max"),
    "max.packed8": _packed("max"),
    "min.relu_s32": _relu(min),
    "max.relu_s32": _relu(max),
    "popc": lambda c, a: bin(a).count("1"),
    "clz": lambda c, a: bits_of(c["type"]) - a.bit_length(),
    "bfind": _bfind,
    "fns": _fns,
    "brev": _brev,
    "bfe": _bfe,
    "bfi": _bfi,
    "szext": _szext,
    "bmsk": _bmsk,
    "cnot": lambda c, a: int(a == 0),
    "lop3": _lop3,
    "lop3.bool": _lop3_bool,
    "shf": _shf,
    "prmt": _prmt,
    "setp.ftz": _setp_ftz,
    "setp.bool": _setp_bool,
    "setp.half": _setp_of("f16"),
    "setp.bfloat": _setp_of("bf16"),
    "setp.half2": _setp_packed("f16"),
    "setp.bfloat2": _setp_packed("bf16"),
    "set": _set(),
    "set.half": _set(target="f16"),
    "set.bfloat": _set(target="bf16"),
    "set.half.half": _set("f16", "f16"),
    "set.bfloat.half": _set(target="bf16"),
    "set.int.half": _set("f16"),
    "set.int.bfloat": _set("bf16"),
    "set.half2": _set_packed("f16"),
    "set.bfloat2": _set_packed("bf16"),
    "set.packed": _set_elements,
    "slct.int": lambda c, a, b, by: b if integer(by, "s32") < 0 else a,
    "slct.float": _slct_float,
    "vmad": _vmad,
    "vmad.po": _vmad,
    **{
        f"{name}{suffix}": _video(name)
        for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")
        for suffix in ("", ".merge")
    },
    **{f"{name}{lanes}": _video_lanes(name, lanes) for name in (*OPERATIONS, "vset") for lanes in (2, 4)},
}
