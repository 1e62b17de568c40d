"""What only a whole kernel can break: found when its recording ends, at the line that breaks it."""

from __future__ import annotations

import pytest

from pyptx.core.errors import InstructionError, OperandError
from pyptx.core.types import u64
from pyptx.dsl import Scalar, ptx, reg
from pyptx.ir import Directive
from pyptx.toolchain import Tool, check_text

from .helpers import recorded, text_of


def permit(group: int) -> None:
    ptx.inst[f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned"]()


def test_one_cta_group(ptxas: Tool) -> None:
    def same() -> None:
        permit(1)
        permit(1)

    def mixed() -> None:
        permit(1)
        permit(2)

    assert check_text(text_of(same), ptxas=ptxas).ok
    with pytest.raises(InstructionError, match=r"cta_group::1.*cta_group::2.*the same .cta_group") as caught:
        recorded(mixed)
    assert (
        caught.value.location is not None
        and caught.value.location.text
        == 'ptx.inst[f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned"]()'
    )


def test_directives_that_exclude_each_other() -> None:
    def body() -> None:
        reg.scalar(u64, init=1)

    recorded(body, directives=[Directive("maxntid", (128,))])
    with pytest.raises(InstructionError, match=r"\.maxntid and \.reqntid exclude each other"):
        recorded(body, directives=[Directive("maxntid", (128,)), Directive("reqntid", (128,))])


def test_parameter_space() -> None:
    def many(count: int) -> None:
        names = [f"p{i}" for i in range(count)]
        source = f"def body({', '.join(names)}):\n    for p in ({', '.join(names)},):\n        p + p\n"
        scope: dict[str, object] = {}
        exec(source, scope)
        body = scope["body"]
        assert callable(body)
        recorded(body, *[Scalar(u64)] * count)

    many(100)
    with pytest.raises(OperandError, match="32768 bytes of parameters, at most 32764 are allowed"):
        many(4096)
