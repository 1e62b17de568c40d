"""What a module's target and version lack of what an entry uses."""

from __future__ import annotations

import pytest

from pyptx.core.errors import InstructionError, TargetError
from pyptx.ir import parse_module
from pyptx.isa import unavailable

TEXT = """.version {version}
.target {target}
.address_size 64
{head}
.visible .entry k(.param .u64 x)
{{
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.shared .align 16 .b8 s[64];
{body}
ret;
}}
"""
BODY_LINE = 10

WGMMA = "wgmma.fence.sync.aligned;"
ALLOCATE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32;"
BULK = "cp.async.bulk.commit_group;"
PERMIT = "tcgen05.relinquish_alloc_permit.cta_group::{}.sync.aligned;"
CALLED = ".func f() { wgmma.fence.sync.aligned; ret; }\n"


def faults(
    body: str, target: str, version: str = "8.8", head: str = ""
) -> list[tuple[type[Exception], int, str]]:
    module = parse_module(TEXT.format(version=version, target=target, head=head, body=body))
    return [
        (type(error), error.location.line, error.message)
        for error in unavailable(module, module.entries["k"])
    ]


@pytest.mark.parametrize(
    ("body", "has", "lacks"),
    [
        (WGMMA, "sm_90a", "sm_100a"),
        (ALLOCATE, "sm_100a", "sm_90a"),
        (BULK, "sm_90", "sm_80"),
        ("mov.b32 %r1, %cluster_ctarank;", "sm_90", "sm_80"),
    ],
)
def test_of_another_target(body: str, has: str, lacks: str) -> None:
    assert faults(f"mov.b32 %r1, 0;\n{body}", has) == []
    ((kind, line, message),) = faults(f"mov.b32 %r1, 0;\n{body}", lacks)
    assert kind is TargetError and line == BODY_LINE + 1 and f"does not exist on {lacks}" in message


def test_of_a_later_version() -> None:
    fence = "fence.acquire.sync_restrict::shared::cluster.cluster;"
    assert faults(fence, "sm_90", "8.6") == []
    ((kind, _, message),) = faults(fence, "sm_90", "8.1")
    assert kind is TargetError and "requires PTX ISA 8.6, but the module has .version 8.1" in message


def test_a_version_before_the_target() -> None:
    assert faults("", "sm_90a", "8.0") == []
    ((kind, _, message),) = faults("", "sm_90a", "7.8")
    assert kind is TargetError and ".target sm_90a requires PTX ISA 8.0" in message


def test_one_cta_group() -> None:
    assert faults(PERMIT.format(2), "sm_100a") == []
    ((kind, line, message),) = faults(PERMIT.format(1) + "\n" + PERMIT.format(2), "sm_100a")
    assert kind is InstructionError and line == BODY_LINE + 1 and ".cta_group" in message


def test_of_functions_that_are_reached() -> None:
    assert faults("", "sm_100a", head=CALLED) == []
    ((_, line, message),) = faults("call f;", "sm_100a", head=CALLED)
    assert line == 4 and message.startswith("wgmma.fence") and "does not exist on sm_100a" in message


def test_every_instruction_is_named_at_its_line() -> None:
    found = faults("\n".join([WGMMA, BULK, WGMMA, "mov.b32 %r1, %clusterid.x;"]), "sm_80")
    assert [line - BODY_LINE for _, line, _ in found] == [0, 1, 2, 3]


def test_what_no_form_takes_is_left_to_others() -> None:
    assert faults("frobnicate.u32 %r1, %r2;\nadd.f64 %r1, %r1, %r1;", "sm_90a") == []
