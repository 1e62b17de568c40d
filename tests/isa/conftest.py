"""What the tests against ptxas share."""

from __future__ import annotations

import pytest

from pyptx.isa.targets import VERSIONS, Version
from pyptx.toolchain import Tool, check_text


@pytest.fixture(scope="session")
def newest(ptxas: Tool) -> Version:
    """The highest PTX version that the installed ptxas takes: the table may know later ones."""
    for version in reversed(VERSIONS):
        head = f".version {version[0]}.{version[1]}\n.target sm_75\n.address_size 64\n"
        if check_text(head + ".entry k() { ret; }\n", "sm_75", ptxas=ptxas).ok:
            return version
    raise AssertionError("ptxas takes no known PTX version")
