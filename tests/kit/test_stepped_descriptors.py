"""Descriptors that are stepped in one word are those that 64-bit additions give."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import SpecError, Tile, bf16, kernel, kit, ptx, smem, u32, u64


def test_as_by_64_bits() -> None:
    offsets, stages, size = (0, 32, 96, 8192), (0, 2), 16384

    @kernel(in_specs=(Tile(1, u32),), out_specs=(Tile(2, 3, len(offsets), u64),), block=32, arch="sm_90a")
    def steps(S, Y):  # type: ignore[no-untyped-def]
        tile = smem.alloc((128, 64), bf16, swizzle="128B", stages=3)
        first = ptx.wgmma.descriptor(tile[0])
        stage = ptx.load(u32, S.at(0), space="global")
        ways = [
            kit.descriptor_steps(first, offsets, stage=number, stage_bytes=size)
            for number in (*stages, stage)
        ]
        for row, (found, number) in enumerate(zip(ways, (*stages, 1), strict=True)):
            for column, (value, offset) in enumerate(zip(found, offsets, strict=True)):
                ptx.inst.st.global_.b64(Y.at(0, row, column), value)
                plain = ptx.wgmma.advance(first, offset + size * number) if offset + number else first
                ptx.inst.st.global_.b64(Y.at(1, row, column), plain)

    report = steps.simulate(np.array([1], np.uint32))
    assert report.verdict == "clean", str(report)
    found, plain = report.outputs[0]
    assert np.array_equal(found, plain) and len(np.unique(found)) == found.size


def test_what_is_refused() -> None:
    @kernel(out_specs=(Tile(1, u32),), block=32, arch="sm_90a")
    def odd(Y):  # type: ignore[no-untyped-def]
        tile = smem.alloc((128, 64), bf16, swizzle="128B")
        kit.descriptor_steps(ptx.wgmma.descriptor(tile), (8,))

    with pytest.raises(SpecError, match="8 bytes: expected a multiple of 16"):
        odd.ptx()
