"""``pyptx build``: how kernels and their sizes are found, what is written, and that the folder then serves."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyptx.toolchain import Tool
from pyptx.toolchain.cache import CubinCache, CubinSource
from pyptx.tools.cli import cli
from pyptx.tools.load import load_module

KERNELS = """
from pyptx import Tile, f32, kernel, ptx, reg, u32

@kernel(in_specs=[Tile("N", f32)], grid=lambda N: N // 32, block=32, arch="sm_90a")
def small(A, *, STEP=1):
    reg.scalar(u32, init=A.shape[0] + STEP)

@kernel(block=32, arch="sm_90a")
def plain():
    ptx.inst.bar.sync(0)

print("loaded")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kernels_to_build.py"


def build(file: Path, tail: str = "", *words: str, name: str = "") -> Result:
    file.write_text(KERNELS + tail)
    return CliRunner().invoke(
        cli, ["build", str(file) + name, *words, "-o", str(file.parent / "out"), "-j", "2"]
    )


def built(file: Path) -> list[str]:
    return sorted(entry.entry for entry in CubinCache(file.parent / "out").entries())


LISTS = {
    "specialized in the file": ("small.specialize(N=64)\nsmall.specialize(N=96, STEP=2)\n", "", []),
    "specializations": ("a = small.specialize(N=64)\n_hidden = 3\nb = [small.specialize(N=96)]\n", "", []),
    "pairs": ('SIZES = [(small, {"N": 64}), (small, {"N": 96}, {"STEP": 2})]\n', "", []),
    "one name": ('plain.specialize()\nSIZES = {"a": (small, {"N": 64}), "b": (small, {"N": 96})}\n', ":SIZES", []),
    "a generator": ("def sizes(last):\n    for n in (64, last):\n        yield small.specialize(N=n)\n", ":sizes", ["last=96"]),
}  # fmt: skip


@pytest.mark.parametrize("how", LISTS)
def test_what_is_listed_is_built(file: Path, ptxas: Tool, how: str) -> None:
    tail, name, words = LISTS[how]
    result = build(file, tail, *words, name=name)
    assert result.exit_code == 0, result.output
    assert built(file) == ["small", "small"]
    rows = result.stdout.splitlines()
    assert rows[0].startswith("small sm_90a N=64 STEP=1: ") and "registers, 0 bytes spilled" in rows[0]
    assert rows[-1].startswith("2 of 2 kernels in ") and "loaded" in result.stderr


def test_a_kernel_with_values_and_a_second_run(file: Path, ptxas: Tool) -> None:
    assert build(file, "", "N=64", "STEP=3", name=":small").stdout.startswith("small sm_90a N=64 STEP=3: ")
    again = build(file, "", "N=64", "STEP=3", name=":small").stdout
    assert again.startswith("small sm_90a N=64 STEP=3: is there\n1 of 1 ")
    assert built(file) == ["small"]


def test_the_folder_serves_by_the_text_without_lines(file: Path, ptxas: Tool) -> None:
    build(file, "", name=":plain")
    text = load_module(file).plain.ptx()
    found = CubinCache(file.parent / "out", shipped=True).find_any(CubinSource("plain", text, "sm_90a"))
    assert found is not None and found.image[:4] == b"\x7fELF" and found.tool == f"ptxas-{ptxas.version_text}"
    assert str(file).encode() not in found.image
    assert (file.parent / "out").stat().st_mode & 0o055  # readable by those it ships to


def test_a_damaged_entry_is_built_again(file: Path, ptxas: Tool) -> None:
    build(file, "", name=":plain")
    (cubin,) = (file.parent / "out").rglob("kernel.cubin")
    cubin.write_bytes(b"damaged")
    assert "registers" in build(file, "", name=":plain").stdout
    (cubin,) = (file.parent / "out").rglob("kernel.cubin")
    assert cubin.read_bytes()[:4] == b"\x7fELF"


def test_an_error_names_the_kernel_and_spares_the_others(
    file: Path, ptxas: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyptx.core.errors import AssembleError
    from pyptx.tools import build as module

    real = module.assemble

    def refusing(printed: object, *given: object, **options: object) -> object:
        if "small" in str(getattr(printed, "text", "")):
            raise AssembleError("ptxas refused the text")
        return real(printed, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "assemble", refusing)
    result = build(file, "small.specialize(N=63)\nplain.specialize()\n")
    assert result.exit_code == 1 and "small sm_90a N=63 STEP=1: ptxas refused the text" in result.stderr
    assert built(file) == ["plain"] and "1 of 2 kernels" in result.stdout


@pytest.mark.parametrize(
    ("tail", "name", "words", "said"),
    [
        ("", "", [], "no kernel with its sizes; call k.specialize(M=4096)"),
        ("", "", ["N=64"], "NAME=VALUE needs"),
        ("", ":none", [], "has no 'none'"),
        ("SIZES = [(small, 64)]\n", ":SIZES", [], "is <kernel small for sm_90a>"),
        ("SIZES = [64]\n", ":SIZES", [], "SIZES[0] is 64: expected a kernel"),
        ("SIZES = [64]\n", ":SIZES", ["N=1"], "SIZES is a list, which takes no NAME=VALUE"),
        ("def sizes(): pass\n", ":sizes", ["N=1"], "sizes: sizes() got an unexpected keyword"),
    ],
)  # fmt: skip
def test_refusals(file: Path, tail: str, name: str, words: list[str], said: str) -> None:
    result = build(file, tail, *words, name=name)
    if said.startswith(
        "is <kernel"
    ):  # a tuple that is no pair is a list: the kernel has no sizes, 64 is none
        assert result.exit_code == 2 and "SIZES[0][1] is 64" in result.stderr
    else:
        assert result.exit_code == 2 and said in result.stderr
    assert not (file.parent / "out").exists()
