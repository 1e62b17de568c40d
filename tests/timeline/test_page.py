"""The page in a browser: events are drawn, search, click, keys and zoom work, and nothing is reported as an error.

The tests need a Chromium on the path, or its path in ``PYPTX_CHROMIUM``; without it they are skipped.
"""

from __future__ import annotations

import html
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyptx.timeline import Cause, Event, EventKind, Line, Timeline, Track, TrackKind

pytestmark = pytest.mark.full

#: Does what a user does, and puts what the page then says into an element.
USER = """
<pre id="answers"></pre>
<script>
const canvas = document.getElementById("canvas"), answers = {}, data = document.body.dataset;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const frame = () => wait(30);
const key = async (name, more) => { canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, ...more })); await frame(); };
const click = async (x, y) => {
  const box = canvas.getBoundingClientRect(), at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1 };
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
  answers.tip = document.getElementById("tip").textContent;
  canvas.dispatchEvent(new PointerEvent("pointerdown", at)); canvas.dispatchEvent(new PointerEvent("pointerup", at));
  await frame();
};
const span = () => Number(data.to) - Number(data.from);
addEventListener("load", async () => {
  try {
    await frame();
    answers.first = { ...data };
    const search = document.getElementById("search");
    search.value = "needle"; search.dispatchEvent(new Event("input")); await wait(300);
    answers.matches = data.matches;
    search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true })); await frame();
    answers.found = { selected: data.selected, line: data.line, text: document.getElementById("details").textContent };
    search.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    await key("Escape"); await key("Home");
    const box = canvas.getBoundingClientRect();
    await click(176 + (box.width - 186) * CLICK_AT, 24 + 22 + 9);
    answers.clicked = { selected: data.selected, line: data.line, here: document.querySelector("#details .here")?.textContent };
    await key("b"); answers.ended_by = data.selected;
    await key("."); answers.following = data.selected;
    const before = span();
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, clientX: box.left + 500, clientY: box.top + 60, bubbles: true, cancelable: true }));
    await frame(); answers.zoomed = span() < before;
    await key("-"); await key("ArrowRight"); await key("Home"); answers.whole = Math.abs(span() - before) < 1e-6 * before || span() > before;
    answers.left_out = Number(data.to); await key("c"); answers.shown = Number(data.to);
    await key("t"); answers.theme = document.documentElement.dataset.theme;
    await key("?"); answers.help = document.getElementById("keys").open;
  } catch (error) { answers.failed = String(error); }
  answers.last = { ...data };
  document.getElementById("answers").textContent = JSON.stringify(answers);
});
</script>
"""


#: A browser without a screen draws few frames, and when it likes: let the page draw when it asks to.
FRAMES = "<head><script>requestAnimationFrame = (draw) => setTimeout(draw, 0);</script>"


def chromium() -> str:
    found = os.environ.get("PYPTX_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.skip("needs Chromium: no chromium or google-chrome on the path, and PYPTX_CHROMIUM is not set")
    return found


def opened(page: Path, folder: Path) -> tuple[str, str]:
    """Open a page; return the document as the browser has it afterwards, and the messages of the console."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--mute-audio"]
    options += ["--virtual-time-budget=6000", "--enable-logging=stderr", f"--user-data-dir={folder}"]
    done = subprocess.run(
        [chromium(), *options, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(said)


def played(timeline: Timeline, folder: Path, at: float) -> dict[str, Any]:
    page = folder / "page.html"
    timeline.html(page)
    text = page.read_text()
    text = text.replace("<head>", FRAMES, 1).replace("</body>", USER.replace("CLICK_AT", str(at)) + "</body>")
    page.write_text(text)
    document, said = opened(page, folder / "profile")
    assert not said
    answers = re.search(r'<pre id="answers">(.*?)</pre>', document, re.DOTALL)
    assert answers is not None and answers[1], document[:2000]
    found: dict[str, Any] = json.loads(html.unescape(answers[1]))
    assert "failed" not in found and found["first"]["errors"] == found["last"]["errors"] == "0", found
    return found


def many(count: int) -> Timeline:
    """Return a timeline of ``count`` events on 60 tracks, the first of which is a wait of a third of the axis."""
    random.seed(1)
    tracks = [Track(TrackKind.WARP, f"warp {n % 12}", f"CTA ({n // 12}, 0, 0)", n // 12) for n in range(60)]
    first = many.__code__.co_firstlineno
    lines = [Line(__file__, first, "many", 1), Line(__file__, first + 1)]
    length = count // 60 * 3
    events = [
        Event(0, EventKind.WAIT, 0, length / 3, "try_wait", Cause.BYTES, "full[0]", 2, 0, 0, by=1),
        Event(1, EventKind.SPAN, 0, 2, "needle", line=1),
    ]
    for number in range(count - 2):
        track, at = number % 60, number // 60 * 3.0
        if track == 0 and at < length / 3:
            at += length / 3
        kind = random.choice([EventKind.SPAN, EventKind.SPAN, EventKind.INSTANT])
        events.append(
            Event(track, kind, at, at + (2 if kind is EventKind.SPAN else 0), "mma", line=number % 2)
        )
    return Timeline("many events", "order", tracks, events, lines, notes=["a note"])


def test_a_hundred_thousand_events_are_drawn_found_and_clicked(tmp_path: Path) -> None:
    found = played(many(100_000), tmp_path, at=0.2)
    assert (found["first"]["events"], found["first"]["tracks"]) == ("100000", "60")
    # Events within one pixel are drawn together, and so are neighbors that are smaller.
    assert 1_000 < int(found["first"]["drawn"]) < 30_000
    assert found["matches"] == "1" and found["found"]["selected"] == "1"
    first = many.__code__.co_firstlineno
    assert found["found"]["line"].endswith(f"test_page.py:{first + 1}") and "needle" in found["found"]["text"]
    assert found["clicked"]["selected"] == "0" and found["clicked"]["line"].endswith(f"test_page.py:{first}")
    assert "def many(count: int)" in found["clicked"]["here"]
    assert "full[0] phase 2: bytes of copies" in found["tip"]
    assert found["ended_by"] == "1" and found["following"] not in ("1", "-1")
    # Only the first CTAs are open: the steps in which they do nothing are left out until C is pressed.
    assert found["left_out"] < found["shown"]
    assert found["zoomed"] and found["whole"] and found["theme"] in ("dark", "light") and found["help"]


def test_waits_that_never_end_are_named_first(tmp_path: Path) -> None:
    small = many(600)
    small.events[0].open = small.hangs = True
    small.html(tmp_path / "page.html")
    document, said = opened(tmp_path / "page.html", tmp_path / "profile")
    banner = re.search(r'<section id="banner">(.*?)</section>', document, re.DOTALL)
    assert not said and banner is not None
    assert "1 wait never ends" in banner[1]
    assert "CTA (0, 0, 0) warp 0 waits for full[0] phase 2: bytes of copies" in banner[1]
