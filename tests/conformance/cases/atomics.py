"""atom and red: every operation and type, on words of their own and on words that lanes share."""

from __future__ import annotations

from itertools import product

import numpy as np

from ..case import In, KernelCase, Number, Out, kernel
from ..words import FORMATS, Words, floats, uniform

#: Threads of a case; each has words of its own.
_COUNT = 512
_FLOATS = ("f16", "bf16", "f32", "f64")
#: Of each type: bytes, register class, type of the load and store.
_STORAGE = {
    **{kind: (4, "%r", "b32") for kind in ("b32", "u32", "s32", "f16x2", "bf16x2")},
    **{kind: (8, "%d", "b64") for kind in ("b64", "u64", "s64")},
    **{kind: (2, "%h", "b16") for kind in ("b16", "f16", "bf16")},
    "f32": (4, "%f", "f32"),
    "f64": (8, "%g", "f64"),
    "b128": (16, "%q", "b128"),
}
_SPACES = ("global", "shared", "shared::cluster", "generic", "generic shared")


def _dtype(nbytes: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"u{min(nbytes, 8)}")


def _corners(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    return [0, 1, 2, 5, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]


def _patterns(kind: str) -> list[int]:
    """Bit patterns of a float: zeroes, subnormal, normal and largest numbers, infinities, NaNs."""
    shape = FORMATS[kind]
    one = shape.bias << shape.fraction
    infinity = ((1 << shape.exponent) - 1) << shape.fraction
    least = 1 << shape.fraction
    positive = [0, 1, least - 1, least, one, infinity - 1, infinity, infinity | least >> 1, infinity | 1]
    return [*positive, *(p | 1 << (shape.bits - 1) for p in positive)]


def _operands(kind: str, which: int) -> Words:
    """The first or second operand of each thread: all pairs of corners, and then anything."""
    if kind in ("f16x2", "bf16x2"):
        half = kind[:-2]
        return np.roll(_operands(half, which), 7) << np.uint64(16) | _operands(half, which)
    if kind in _FLOATS:
        pairs = list(product(_patterns(kind), repeat=2))
        rest = floats(f"atomics {kind} {which}", _COUNT - len(pairs), kind)
    else:
        pairs = list(product(_corners(int(kind[1:])), repeat=2))
        rest = uniform(f"atomics {kind} {which}", _COUNT - len(pairs), int(kind[1:]))
        if which:
            # Equal ones and neighbours, for cas, inc and dec.
            first = _operands(kind, 0)[len(pairs) :]
            rest = np.where(np.arange(len(rest)) % 3 == 0, first, rest)
            rest = np.where(np.arange(len(rest)) % 7 == 0, np.maximum(first, 1) - np.uint64(1), rest)
    return np.concatenate([np.array([pair[which] for pair in pairs], np.uint64), np.asarray(rest, np.uint64)])


def _words(kind: str, which: int, parts: int) -> np.ndarray:
    """(threads, parts) operands as words of the type's size."""
    nbytes = _STORAGE[kind][0]
    if kind == "b128":
        high, low = _operands("b64", which), uniform("atomics low half", _COUNT)
        return np.stack([low, high], axis=1)
    one = _operands(kind, which).astype(_dtype(nbytes))
    return np.stack([np.roll(one, 11 * part) for part in range(parts)], axis=1)


class _Body:
    """Statements that move operands of one type, of ``parts`` elements."""

    def __init__(self, kind: str, parts: int) -> None:
        self.kind, self.parts = kind, parts
        self.nbytes, self.cls, self.moved = _STORAGE[kind]
        self.step = self.nbytes * parts

    def group(self, number: int) -> str:
        names = ", ".join(f"{self.cls}{number * 8 + part}" for part in range(self.parts))
        return names if self.parts == 1 else f"{{{names}}}"

    def load(self, number: int, space: str, address: str, offset: int = 0) -> str:
        at = [
            f"ld.{space}.{self.moved} {self.cls}{number * 8 + part}, [{address}+{offset + part * self.nbytes}];"
            for part in range(self.parts)
        ]
        return "\n".join(at)

    def store(self, number: int, space: str, address: str, offset: int = 0) -> str:
        at = [
            f"st.{space}.{self.moved} [{address}+{offset + part * self.nbytes}], {self.cls}{number * 8 + part};"
            for part in range(self.parts)
        ]
        return "\n".join(at)


def _each_its_own(
    form: str, mnemonics: list[str], kind: str, space: str, *, parts: int = 0, third: bool = False
) -> KernelCase:
    """One instruction after another, ``mnemonics`` with {} for the space, each on words that nobody shares."""
    body = _Body(kind, max(parts, 1))
    region = body.step * _COUNT
    returns = form.startswith("atom")
    lines = []
    for number, name in enumerate(("b", "c", "memory", "old"), 20):
        lines.append(f"mad.wide.u32 %d{number}, %index, {body.step}, %{name};")
    lines += [body.load(1, "global", "%d20"), body.load(2, "global", "%d21")]
    where = ""
    shared = "shared" in space
    spelled = f".{space}" if "generic" not in space else ""
    if shared:
        where = f".shared .align 16 .b8 room[{region}];"
        lines += ["mov.u64 %d24, room;", f"mad.wide.u32 %d25, %index, {body.step}, %d24;"]
        lines.append("cvta.shared.u64 %d26, %d25;" if not spelled else "mov.u64 %d26, %d25;")
    for slot, mnemonic in enumerate(mnemonics):
        at = slot * region
        if shared:
            lines += [body.load(3, "global", "%d22", at), body.store(3, "shared", "%d25")]
        else:
            lines.append(f"add.u64 %d26, %d22, {at};")
            if not spelled:
                lines.append("cvta.global.u64 %d26, %d26;")
        destination = f"{body.group(0)}, " if returns else ""
        operands = f"[%d26], {body.group(1)}" + (f", {body.group(2)}" if third else "")
        lines.append(f"{mnemonic.format(spelled)} {destination}{operands};")
        if returns:
            lines.append(body.store(0, "global", "%d23", at))
        if shared:
            lines += [body.load(3, "shared", "%d25"), body.store(3, "global", "%d22", at)]
    words = _words(kind, 1, body.parts)
    memory = np.broadcast_to(_words(kind, 0, body.parts), (len(mnemonics), *words.shape))
    return KernelCase(
        f"{form} of {kind}{f' x {parts}' if parts else ''} in {space} memory",
        kernel(
            "\n".join(lines),
            "b:u64 c:u64 memory:u64 old:u64",
            registers=f"{where}\n.reg .b128 %q<32>;" if kind == "b128" else where,
        ),
        (
            In(words),
            In(np.roll(words, 3, axis=0)),
            Out(words.dtype, memory.shape, initial=memory),
            Out(words.dtype, memory.shape),
        ),
        block=(_COUNT,),
        covers=(form,),
    )


_OPERATIONS = {
    "b32": ("and", "or", "xor", "exch"),
    "b64": ("and", "or", "xor", "exch"),
    "u32": ("add", "inc", "dec", "min", "max"),
    "s32": ("add", "min", "max"),
    "u64": ("add", "min", "max"),
    "s64": ("min", "max"),
    "f32": ("add",),
    "f64": ("add",),
}
_ORDERS = ("", ".relaxed.cta", ".acquire.gpu", ".release.sys", ".acq_rel.cluster")


def _scalar_cases() -> list[KernelCase]:
    cases = []
    for number, (kind, space) in enumerate(product(_OPERATIONS, _SPACES)):
        order = _ORDERS[number % len(_ORDERS)]
        atoms = [f"atom{order}{{}}.{op}.{kind}" for op in _OPERATIONS[kind]]
        weaker = order if "acq" not in order else ".relaxed.gpu"
        reds = [f"red{weaker}{{}}.{op}.{kind}" for op in _OPERATIONS[kind] if op != "exch"]
        cases += [_each_its_own("atom", atoms, kind, space), _each_its_own("red", reds, kind, space)]
    for number, (kind, space) in enumerate(product(("b16", "b32", "b64"), _SPACES)):
        order = _ORDERS[number % len(_ORDERS)]
        cases.append(_each_its_own("atom.cas", [f"atom{order}{{}}.cas.{kind}"], kind, space, third=True))
    for space in _SPACES:
        cases.append(_each_its_own("atom.cas.b128", ["atom{}.cas.b128"], "b128", space, third=True))
        cases.append(_each_its_own("atom.exch.b128", ["atom.acq_rel.gpu{}.exch.b128"], "b128", space))
    for kind, space in product(("f16", "f16x2", "bf16", "bf16x2"), _SPACES):
        cases.append(_each_its_own("atom.add.noftz", [f"atom{{}}.add.noftz.{kind}"], kind, space))
        cases.append(_each_its_own("red.add.noftz", [f"red{{}}.add.noftz.{kind}"], kind, space))
    return cases


def _vector_cases() -> list[KernelCase]:
    cases = []
    for space, count in product(("global", "generic"), (2, 4)):
        for form in ("atom.add.vec", "red.add.vec"):
            mnemonic = f"{form[:-8]}.relaxed.gpu{{}}.add.v{count}.f32"
            cases.append(_each_its_own(form, [mnemonic], "f32", space, parts=count))
    for kind, count in product(("f16", "bf16", "f16x2", "bf16x2"), (2, 4, 8)):
        if count * _STORAGE[kind][0] > 16:
            continue
        for form in ("atom.noftz.vec", "red.noftz.vec"):
            mnemonics = [f"{form[:-10]}{{}}.{op}.noftz.v{count}.{kind}" for op in ("add", "min", "max")]
            cases.append(_each_its_own(form, mnemonics, kind, "global", parts=count))
    return cases


# --- words that lanes share -------------------------------------------------------------------------


def _together(kind: str, op: str, space: str, groups: int) -> KernelCase:
    """Threads that meet at ``groups`` words: where the order does not decide, the result is one."""
    body = _Body(kind, 1)
    words = _words(kind, 1, 1)[:, 0]
    if kind in ("f32", "f64"):
        # Sums of whole numbers, exact in any order.
        numbers = (np.arange(_COUNT) % 61 - 30).astype(np.dtype(f"f{body.nbytes}"))
        words = numbers.view(words.dtype)
    lines = [
        f"mad.wide.u32 %d20, %index, {body.nbytes}, %b;",
        body.load(1, "global", "%d20"),
        f"rem.u32 %r60, %index, {groups};",
    ]
    where = ""
    if space == "shared":
        where = f".shared .align 16 .b8 room[{groups * 8}];"
        lines += [
            "mov.u64 %d24, room;",
            f"mad.wide.u32 %d22, %r60, {body.nbytes}, %memory;",
            f"mad.wide.u32 %d26, %r60, {body.nbytes}, %d24;",
            body.load(3, "global", "%d22"),
            body.store(3, "shared", "%d26"),
            "bar.sync 0;",
        ]
    else:
        lines.append(f"mad.wide.u32 %d26, %r60, {body.nbytes}, %memory;")
    lines += [
        f"red.{space}.{op}.{kind} [%d26], {body.group(1)};",
        f"atom.{space}.{op}.{kind} {body.group(0)}, [%d26], {body.group(1)};",
    ]
    if space == "shared":
        lines += ["bar.sync 0;", body.load(3, "shared", "%d26"), body.store(3, "global", "%d22")]
    initial = words[:groups][::-1].copy()
    return KernelCase(
        f"{op} of {kind} by all threads to {groups} words in {space} memory",
        kernel("\n".join(lines), "b:u64 memory:u64", registers=where),
        (In(words), Out(words.dtype, groups, initial=initial)),
        block=(_COUNT,),
        covers=("atom", "red"),
    )


def _tickets(op: str, kind: str, space: str) -> KernelCase:
    """Every thread takes a number: the old values are the same set in any order."""
    body = _Body(kind, 1)
    where = ""
    lines = ["mov.u64 %d26, %memory;"]
    if space == "shared":
        where = ".shared .align 16 .b8 room[16];"
        lines = ["mov.u64 %d26, room;", body.load(3, "global", "%memory"), body.store(3, "shared", "%d26")]
        lines.append("bar.sync 0;")
    lines += [
        f"mov.{kind} {body.group(1)}, %step;" if kind != "f32" else f"cvt.rn.f32.u32 {body.group(1)}, %step;",
        f"atom.{space}.{op}.{kind} {body.group(0)}, [%d26], {body.group(1)};",
        f"mad.wide.u32 %d20, %index, {body.nbytes}, %old;",
        body.store(0, "global", "%d20"),
    ]
    return KernelCase(
        f"numbers taken with {op} of {kind} in {space} memory",
        kernel(
            "\n".join(lines), f"memory:u64 old:u64 step:{'u32' if kind == 'f32' else kind}", registers=where
        ),
        (
            Out(_dtype(body.nbytes), 1, initial=0),
            Out(_dtype(body.nbytes), _COUNT, order="any"),
            Number(3 if op == "add" else 50, "u32" if kind == "f32" else kind),
        ),
        block=(_COUNT,),
        covers=("atom",),
    )


_LOCK = """
mov.u32 %r9, 0;
AGAIN:
atom.acquire.gpu.global.cas.b32 %r0, [%memory], 0, 1;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra AGAIN;
ld.volatile.global.u32 %r1, [%memory+4];
mad.lo.u32 %r1, %r1, 1, 3;
st.volatile.global.u32 [%memory+4], %r1;
atom.release.gpu.global.exch.b32 %r2, [%memory], 0;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p1, %r9, 4;
@%p1 bra AGAIN;
"""


def _lock() -> KernelCase:
    """A lock that threads of different warps take in turns; one thread of each warp."""
    body = f"setp.ne.u32 %p2, %lane, 0;\n@%p2 bra END;\n{_LOCK}\nEND:"
    return KernelCase(
        "a lock of cas and exch",
        kernel(body, "memory:u64"),
        (Out(np.uint32, 2),),
        grid=(2,),
        block=(128,),
        covers=("atom.cas", "atom"),
    )


CASES = [
    *_scalar_cases(),
    *_vector_cases(),
    *[
        _together(kind, op, space, groups)
        for kind, operations in _OPERATIONS.items()
        for op in operations
        if op not in ("exch", "inc", "dec")
        for space, groups in (("global", 1), ("shared", 1), ("global", 37), ("shared", 5))
    ],
    *[
        _tickets(op, kind, space)
        for op, kind in (("add", "u32"), ("add", "u64"), ("add", "f32"), ("inc", "u32"), ("dec", "u32"))
        for space in ("global", "shared")
    ],
    _lock(),
]
