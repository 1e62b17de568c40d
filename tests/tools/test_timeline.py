"""``pyptx sim --timeline``: the page or the schema of a run, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyptx.timeline import Timeline
from pyptx.tools.cli import cli
from tests.examples.loading import EXAMPLES

ADD = [str(EXAMPLES / "hopper/vector_add.py"), "N=1000", "--arg", "n=1000"]


def simulated(*options: str) -> Result:
    return CliRunner().invoke(cli, ["sim", *ADD, *options])


def test_a_run_writes_its_timeline(tmp_path: Path) -> None:
    page, data = tmp_path / "add.html", tmp_path / "add.json"
    assert simulated("--timeline", str(page)).exit_code == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert simulated("--timeline", str(data), "--schedule", "sampled", "--seeds", "0").exit_code == 0
    found = Timeline.read(data)
    assert found.title == "vector_add under eager" and len(found.events) > 8


@pytest.mark.parametrize(
    ("name", "said"),
    [("add.txt", "expected a name that ends in .html"), ("there.html", "exists: give --overwrite")],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    name: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "there.html").write_text("kept")
    done = simulated("--timeline", str(tmp_path / name))
    assert done.exit_code == 3 and said in done.output
    assert (tmp_path / "there.html").read_text() == "kept"
    assert simulated("--timeline", str(tmp_path / "there.html"), "--overwrite").exit_code == 0
