"""What launches lose where units work at the same time, by rows of multiply-adds that were measured on an H200."""

from __future__ import annotations

import pytest

import pyptx
from pyptx import sim
from pyptx.sim.clock.overlap import overlap_loss
from pyptx.timing.constants import gpu

H200 = gpu("h200")


@pytest.mark.parametrize(
    ("busy", "part"),
    [
        ({"issue": 1.0, "HBM": 1.0}, 1.0),
        ({"issue": 0.2, "fma": 0.9, "HBM": 0.5, "L2": 0.6}, 0.6**3),
        ({"fma": 0.5, "shared memory": 0.9, "L1": 0.8}, 0.8**3),
        # Pipes share their instructions, and units of memory the bytes; the copy engine is told long before.
        ({"fma": 1.0, "mufu": 0.9, "issue": 0.8}, 0.0),
        ({"L1": 0.9, "L2": 0.9, "HBM": 1.0}, 0.0),
        ({"tensor": 1.0, "copy engine": 0.9, "HBM": 0.8}, 0.0),
        ({"fma": 1.2, "HBM": 1.1}, 1.0),
    ],
)
def test_the_second_chain_of_units_decides(busy: dict[str, float], part: float) -> None:
    assert overlap_loss(H200, busy) == pytest.approx(part * H200.value("sm.overlap_loss"))


def rows(multiply_adds: int) -> str:
    """Return a kernel whose CTAs load 8 KiB, do so many multiply-adds in four sums a thread, and store."""
    steps = "\n".join(f"fma.rn.f32 %a{n % 4}, %a{n % 4}, %u{n % 4}, %v{n % 4};" for n in range(multiply_adds))
    ends = "\n".join(f"add.f32 %u{n}, %u{n}, %a{n};\nsub.f32 %v{n}, %v{n}, %a{n};" for n in range(4))
    begins = "\n".join(f"add.f32 %a{n}, %u{n}, %v{n};" for n in range(4))
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry rows(.param .u64 x, .param .u64 y)
{{
.reg .b32 %r<4>;
.reg .b64 %rd<8>;
.reg .f32 %u<4>, %v<4>, %a<4>;
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [y];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r1, 512, %r2;
mul.wide.u32 %rd3, %r3, 16;
add.u64 %rd1, %rd1, %rd3;
add.u64 %rd2, %rd2, %rd3;
ld.global.v4.f32 {{%u0, %u1, %u2, %u3}}, [%rd1];
ld.global.v4.f32 {{%v0, %v1, %v2, %v3}}, [%rd1+4096];
{begins}
{steps}
{ends}
st.global.v4.f32 [%rd2], {{%u0, %u1, %u2, %u3}};
st.global.v4.f32 [%rd2+4096], {{%v0, %v1, %v2, %v3}};
ret;
}}
"""


@pytest.mark.full
@pytest.mark.usefixtures("ptxas")
@pytest.mark.parametrize(("multiply_adds", "cycles"), [(256, 137_603), (384, 178_910)])
def test_rows_of_multiply_adds_take_longer_than_either_unit(multiply_adds: int, cycles: int) -> None:
    """ncu, H200: 16,384 CTAs of 256 threads, empty caches. Bytes alone take 127,000 cycles."""
    arrays = [sim.unknown((16384 * 2048,), "f32") for _ in range(2)]
    found = pyptx.predict(
        sim.load(rows(multiply_adds)), grid=16384, block=256, args=arrays, gpu="h200", clock=1980.0, l2="cold"
    )
    assert found.cycles == pytest.approx(cycles, rel=0.08)
