"""What a user's file prints goes to standard error: standard output is the command's answer alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx.ir import parse_module
from tests.examples.loading import EXAMPLES

pytestmark = pytest.mark.full

#: Prints from Python, from a program and from C while it is loaded, from a builder and from a kernel's body.
CHATTY = """
import atexit
import ctypes
import os
import subprocess

from pyptx import Tile, kernel, ptx, reg, u32, u64

print("loaded")
os.system("echo from a program")
subprocess.run(["echo", "from another program"], check=True)
ctypes.CDLL(None).printf(b"from C\\n")
atexit.register(print, "at the end")
atexit.register(os.system, "echo from a program at the end")


def build(n=32):
    print("built")

    @kernel(out_specs=(Tile(n, u32),), grid=(1,), block=(n,), arch="sm_90a")
    def numbers(D):
        print("recorded")
        lane = ptx.special.tid.x()
        offset = reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, lane, 4)
        ptx.inst.st.global_.u32(ptx.addr(D.ptr + offset), lane)
        ptx.ret()

    return numbers


numbers = build()

if __name__ == "__main__":
    print("run as a script")
"""
PRINTED = (
    "loaded",
    "from a program",
    "from another program",
    "from C",
    "built",
    "recorded",
    "at the end",
    "from a program at the end",
)


@pytest.fixture
def chatty(tmp_path: Path) -> str:
    file = tmp_path / "chatty.py"
    file.write_text(CHATTY)
    return str(file)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from pyptx.tools.cli import main; main()", *words],
        capture_output=True,
        text=True,
        cwd=EXAMPLES.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in PRINTED:
        assert text in done.stderr.splitlines() and text not in done.stdout.splitlines()
    assert "run as a script" not in done.stderr
    return done


def test_emit_prints_the_module_alone(chatty: str) -> None:
    for target in (chatty, f"{chatty}:build"):
        module = parse_module(_run("emit", target).stdout)
        assert [function.name for function in module.functions] == ["numbers"]


def test_check_prints_json_alone(chatty: str) -> None:
    assert json.loads(_run("check", "--no-assemble", "--json", chatty).stdout)["faults"] == []


def test_sim_prints_json_alone(chatty: str) -> None:
    found = json.loads(_run("sim", "--json", chatty).stdout)
    assert found["verdict"] == "clean" and found["arrays"][0]["first"][:3] == [0, 1, 2]


def test_diff_prints_json_alone(chatty: str) -> None:
    found = json.loads(_run("diff", "--no-sass", "--run", "--json", chatty, f"{chatty}:build").stdout)
    assert found["equal"] and found["run"]["equal"]


def test_a_closed_standard_error_does_not_matter(chatty: str) -> None:
    program = f"{sys.executable} -c 'from pyptx.tools.cli import main; main()' emit {chatty} 2>&-"
    done = subprocess.run(
        program, shell=True, stdout=subprocess.PIPE, text=True, cwd=EXAMPLES.parent, check=False
    )
    assert done.returncode == 0 and done.stdout.count(".visible .entry numbers") == 1


def test_a_file_that_ends_the_program(tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text("import sys\nsys.exit(0)\n")
    done = subprocess.run(
        [sys.executable, "-c", "from pyptx.tools.cli import main; main()", "emit", str(file)],
        capture_output=True,
        text=True,
        cwd=EXAMPLES.parent,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert "ends the program (sys.exit(0)) when it is loaded" in done.stderr
