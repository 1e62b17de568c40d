"""``__init__`` of data classes with slots, one function for each number of fields.

Owns :data:`STORING`.  :mod:`.records` gives a function the names of a class's fields and the functions that
store a value in its slots.  Python compiles these functions once, into its cache of bytecode; to compile a
function for each class took a tenth of the first recording of a process.
"""

# The names are placeholders: f0 is the first field, s0 the function that stores it.
# ruff: noqa: F821
# mypy: disable-error-code="name-defined, no-untyped-def"

from __future__ import annotations

from types import CodeType

__all__ = ["STORING"]


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


#: The code for 1, 2, 3 ... fields.
STORING: tuple[CodeType, ...] = tuple(
    function.__code__ for function in (_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12)
)
