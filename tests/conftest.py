"""What all tests share: the plugins of this folder, skips where there is no GPU, and the fixtures of the tools."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyptx.core.errors import LaunchError, ToolNotFoundError
from pyptx.toolchain import Tool, find_nvdisasm, find_ptxas

pytest_plugins = ("tests.tiers", "tests.compilers")

with contextlib.suppress(ImportError):  # the smoke tier does not need it
    import hypothesis

    # A busy machine is no failure.
    hypothesis.settings.register_profile("pyptx", deadline=None)
    hypothesis.settings.load_profile("pyptx")


def _why_no_gpu() -> str:
    """Empty where a GPU can be used."""
    from pyptx.runtime import driver

    try:
        return "" if driver.device_count() else "the CUDA driver reports no GPU"
    except LaunchError as error:
        return error.message


@pytest.fixture(scope="session", autouse=True)
def disk_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A disk cache of the session's own: no test reads or fills the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYPTX_CACHE_DIR", str(tmp_path_factory.mktemp("cubins")))
        for name in ("PYPTX_CACHE", "PYPTX_CACHE_PATH", "PYPTX_CACHE_LIMIT"):
            patch.delenv(name, raising=False)
        yield


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and (why := _why_no_gpu()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {why}"))


def _required(find: Callable[[], Tool]) -> Tool:
    """The tool, whose absence fails in CI and skips elsewhere."""
    try:
        return find()
    except ToolNotFoundError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have it: {error}")
        pytest.skip(str(error))


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def ptxas() -> Tool:
    return _required(find_ptxas)


@pytest.fixture(scope="session")
def nvdisasm() -> Tool:
    return _required(find_nvdisasm)
