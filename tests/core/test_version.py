"""The version is one, wherever it stands."""

from pathlib import Path

import pyptx
from pyptx.core.version import VERSION


def test_version() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'\nversion = "{VERSION}"\n' in project and pyptx.__version__ == VERSION
