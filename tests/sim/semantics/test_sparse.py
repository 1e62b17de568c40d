"""spdecompress against the manual's loop, in every variant."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pyptx.isa import form, variants
from tests.sim.build import Kernel

VARIANTS = list(variants(form("spdecompress")))


def expected(chosen: dict[str, str], metadata: list[int], compressed: list[int]) -> list[int]:
    kept, dense = map(int, chosen["spfactor"][4:].split(":"))
    bits, index = int(chosen["elemsize"][1:]), int(chosen["idxsize"][1:])
    places = sum(word << 32 * i for i, word in enumerate(metadata))
    values = sum(word << 32 * i for i, word in enumerate(compressed))
    result, repeats = 0, int(chosen["num"][1:])
    for repeat in range(repeats):
        group = [0] * dense
        for number in range(kept):
            position = repeat * kept + number
            group[places >> index * position & (1 << index) - 1] = values >> bits * position & (1 << bits) - 1
        for place, value in enumerate(group):
            result |= value << bits * (repeat * dense + place)
    return [result >> 32 * i & 0xFFFFFFFF for i in range(repeats * dense * bits // 32)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("factor", sorted({match.chosen["spfactor"] for match in VARIANTS}))
def test_spdecompress(factor: str) -> None:
    generator = random.Random(factor)
    for match in VARIANTS:
        if match.chosen["spfactor"] != factor or int(match.chosen["num"][1:]) > 8:
            continue
        kept, dense = map(int, factor[4:].split(":"))
        index, repeats = int(match.chosen["idxsize"][1:]), int(match.chosen["num"][1:])
        lengths = {spec.name: spec.length(match.chosen) or 1 for spec in match.form.specs()}
        length = {name: lengths[name] for name in ("data", "mdata", "cdata")}
        given = np.zeros((32, length["mdata"] + length["cdata"]), np.uint32)
        for row in given:
            places = 0
            for position in range(kept * repeats):
                places |= generator.randrange(min(dense, 1 << index)) << index * position
            row[: length["mdata"]] = [places >> 32 * i & 0xFFFFFFFF for i in range(length["mdata"])]
            row[length["mdata"] :] = [generator.getrandbits(32) for _ in range(length["cdata"])]
        lines = [
            f".reg b32 m0..m{length['mdata'] - 1} c0..c{length['cdata'] - 1} d0..d{length['data'] - 1}",
            ".reg u32 t", ".reg u64 i o", "mov.u32 t, %tid.x",
            f"mad.wide.u32 i, t, {4 * given.shape[1]}, given", f"mad.wide.u32 o, t, {4 * length['data']}, out",
        ]  # fmt: skip
        lines += [f"ld.global.b32 m{n}, [i+{4 * n}]" for n in range(length["mdata"])]
        lines += [f"ld.global.b32 c{n}, [i+{4 * (length['mdata'] + n)}]" for n in range(length["cdata"])]
        vectors = ", ".join(
            f"{{{name}0..{name}{length[word] - 1}}}"
            for name, word in (("d", "data"), ("m", "mdata"), ("c", "cdata"))
        )
        lines += [f"{match.name} {vectors}"]
        lines += [f"st.global.b32 [o+{4 * n}], d{n}" for n in range(length["data"])]
        for threads in (32, 1):
            out = np.zeros((32, length["data"]), np.uint32)
            Kernel("\n".join([*lines, "ret"]), "given:u64 out:u64", target="sm_107a").clean(
                given, out, block=threads
            )
            for row, result in list(zip(given.tolist(), out.tolist(), strict=True))[:threads]:
                assert result == expected(match.chosen, row[: length["mdata"]], row[length["mdata"] :]), (
                    match.name
                )
