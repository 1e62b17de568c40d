"""An accumulator as operand A of the next product, without a way through shared memory.

Owns how f32 values of D become elements of A: on Hopper in the registers of the same thread, on Blackwell in
the same lane of tensor memory.  Attention multiplies so twice: P, made of S = Q K^T, is A of P V.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import ScalarType, b32, bf16, e4m3, e5m2, f16, f32
from ..dsl import Reg, RegArray, ptx, reg
from ..dsl.operands import Addr
from ..dsl.units.fragments import Fragment
from .outputs import pack, rounded
from .wgmma_epilogue import check_accumulator

__all__ = ["a_fragments", "store_a"]

_WORD = 4
#: Bytes of K of one wgmma.
_WGMMA_K = 32
_PAIRS = (bf16, f16)
_FRAGMENTS = (*_PAIRS, e4m3, e5m2)
_CELLS = (*_PAIRS, e4m3, e5m2, f32)


def a_fragments(
    acc: Fragment, dtype: ScalarType = bf16, *, out: Sequence[Fragment] | None = None
) -> list[Fragment]:
    """Round an accumulator of ``wgmma`` to fragments of A, one for each 16 of its columns.

    A thread's elements of D in 16 columns are its elements of A for those 16 of K, two in each register. So
    ``a_fragments(s)[i]`` is A of the product with rows ``16 * i`` and on of B.  In 8 bits a product has 32
    of K, and the columns of each 16 have the order 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15: B must have its
    rows in the same order, as :class:`.transposed_operand.TransposedOperand` leaves them.

    Records a ``cvt.rn`` for each two elements; in 8 bits a ``cvt.rn.satfinite``, which keeps numbers within
    the type's range, and a ``mov.b32`` for each four.

    Without ``out`` the registers are new: they may be written while a product still reads those of an earlier
    call.

    Args:
        acc: a whole accumulator in f32, of ``ptx.wgmma.accumulator``, with a multiple of 16 columns (32 for
            8-bit types).
        dtype: bf16, f16, e4m3 or e5m2.
        out: the fragments of an earlier call, to write the same registers again, as a loop needs it; the
            products that read them must have completed.

    Raises:
        SpecError: another type, an accumulator that is not whole or has other columns, or an ``out`` of
            another size.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-register-fragment`.
    """
    if dtype not in _FRAGMENTS:
        raise SpecError(f"dtype is {dtype!r}: expected {', '.join(map(str, _FRAGMENTS))}")
    check_accumulator(acc)
    columns = acc.layout.columns
    deep = _WGMMA_K // dtype.nbytes  # elements of K of one product
    if columns % deep:
        raise SpecError(f"the accumulator has {columns} columns: expected a multiple of {deep}")
    count = columns // deep
    if out is not None and (len(out) != count or any(a.dtype != dtype.name for a in out)):
        raise SpecError(f"out has {len(out)} fragments: expected {count} of {dtype}, for {columns} columns")
    found = [ptx.wgmma.fragment(dtype) for _ in range(count)] if out is None else list(out)
    for number, a in enumerate(found):
        values = acc.registers[number * deep // 2 : (number + 1) * deep // 2]
        if dtype in _PAIRS:
            for register, low, high in zip(a, values[::2], values[1::2], strict=True):
                pack(register, low, high, dtype)
            continue
        # Four neighbors of K in a register: two columns, and the two that are 8 further, of one row.
        words = [values[i : i + 2] + values[i + 4 : i + 6] for i in (0, 2, 8, 10)]
        flat = RegArray([value.view(b32) for word in words for value in word], b32, a.name)
        rounded(flat, dtype, out=a)
    return found


def store_a(tmem: Reg | Addr, values: RegArray, dtype: ScalarType = bf16) -> None:
    """Round a thread's row of values and store it to tensor memory as elements of A, asynchronously.

    Elements of A lie packed along K in the cells of their row's lane: two of 16 bits or four of 8 in a
    column. So ``len(values)`` elements take ``len(values) * dtype.nbytes / 4`` columns from ``tmem`` on, and
    K = 16 of a 16-bit type is 8 columns further.

    Records what :func:`.outputs.rounded` does, a ``cvt.rna.tf32`` for each value of f32, and one
    ``tcgen05.st``. Before another thread issues the product: ``ptx.tcgen05.wait_st()``, a barrier, and a
    ``tcgen05.fence`` on both sides of it.

    Args:
        tmem: tensor-memory address of the warp's first lane and the first column.
        values: f32 registers, the elements of this thread's row in the order of K.
        dtype: bf16, f16, e4m3, e5m2, or f32, which is rounded to tf32 (to nearest, ties away from zero).

    Raises:
        SpecError: another type, or values that do not fill 1, 2, 4 ... or 128 columns.

    PTX ISA: `#tcgen05-instructions-tcgen05-st`.
    """
    if dtype not in _CELLS:
        raise SpecError(f"dtype is {dtype!r}: expected {', '.join(map(str, _CELLS))}")
    if values.type is not f32:
        raise SpecError(f"values are {values!r}: expected f32 registers", hint="words.view(f32)")
    columns, rest = divmod(len(values) * dtype.nbytes, _WORD)
    if rest or columns & (columns - 1) or not 1 <= columns <= 128:
        raise SpecError(
            f"{len(values)} values of {dtype} are {len(values) * dtype.nbytes / _WORD:g} columns: "
            "expected a power of two, 1..128"
        )
    if dtype is f32:
        words = reg.array(b32, len(values))
        for word, value in zip(words, values, strict=True):
            ptx.inst.cvt.rna.tf32.f32(word, value)
    else:
        words = rounded(values.view(b32), dtype)
    ptx.tcgen05.st(tmem, words, shape="32x32b", count=columns)
