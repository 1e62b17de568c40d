"""Constructors of data classes with slots and of named tuples, one function for each number of fields.

Owns :data:`STORING` and :data:`MAKING`.  :mod:`.records` and :mod:`.tuples` give a function the names of a
class's fields, and :mod:`.records` the functions that store a value in its slots.  Python compiles these
functions once, into its cache of bytecode; to compile a function for each class took a tenth of the first
recording of a process.
"""

# The names are placeholders: f0 is the first field, s0 the function that stores it, make that of a tuple.
# ruff: noqa: F821
# mypy: disable-error-code="name-defined, no-untyped-def"

from __future__ import annotations

from types import CodeType

__all__ = ["MAKING", "STORING"]


def _1(self, f0):
    s0(self, f0)


def _2(self, f0, f1):
    s0(self, f0)
    s1(self, f1)


def _3(self, f0, f1, f2):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)


def _4(self, f0, f1, f2, f3):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)


def _5(self, f0, f1, f2, f3, f4):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)


def _6(self, f0, f1, f2, f3, f4, f5):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)


def _7(self, f0, f1, f2, f3, f4, f5, f6):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)
    s6(self, f6)


def _8(self, f0, f1, f2, f3, f4, f5, f6, f7):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)
    s6(self, f6)
    s7(self, f7)


def _9(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)
    s6(self, f6)
    s7(self, f7)
    s8(self, f8)


def _10(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)
    s6(self, f6)
    s7(self, f7)
    s8(self, f8)
    s9(self, f9)


def _11(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)
    s6(self, f6)
    s7(self, f7)
    s8(self, f8)
    s9(self, f9)
    s10(self, f10)


def _12(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    s0(self, f0)
    s1(self, f1)
    s2(self, f2)
    s3(self, f3)
    s4(self, f4)
    s5(self, f5)
    s6(self, f6)
    s7(self, f7)
    s8(self, f8)
    s9(self, f9)
    s10(self, f10)
    s11(self, f11)


#: The code of ``__init__`` for 1, 2, 3 ... fields.
STORING: tuple[CodeType, ...] = tuple(
    function.__code__ for function in (_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12)
)


def _t1(cls, f0):
    return make(cls, (f0,))


def _t2(cls, f0, f1):
    return make(cls, (f0, f1))


def _t3(cls, f0, f1, f2):
    return make(cls, (f0, f1, f2))


def _t4(cls, f0, f1, f2, f3):
    return make(cls, (f0, f1, f2, f3))


def _t5(cls, f0, f1, f2, f3, f4):
    return make(cls, (f0, f1, f2, f3, f4))


def _t6(cls, f0, f1, f2, f3, f4, f5):
    return make(cls, (f0, f1, f2, f3, f4, f5))


def _t7(cls, f0, f1, f2, f3, f4, f5, f6):
    return make(cls, (f0, f1, f2, f3, f4, f5, f6))


def _t8(cls, f0, f1, f2, f3, f4, f5, f6, f7):
    return make(cls, (f0, f1, f2, f3, f4, f5, f6, f7))


def _t9(cls, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    return make(cls, (f0, f1, f2, f3, f4, f5, f6, f7, f8))


def _t10(cls, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    return make(cls, (f0, f1, f2, f3, f4, f5, f6, f7, f8, f9))


def _t11(cls, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    return make(cls, (f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10))


def _t12(cls, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    return make(cls, (f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11))


#: The code of ``__new__`` for 1, 2, 3 ... fields.
MAKING: tuple[CodeType, ...] = tuple(
    function.__code__ for function in (_t1, _t2, _t3, _t4, _t5, _t6, _t7, _t8, _t9, _t10, _t11, _t12)
)
