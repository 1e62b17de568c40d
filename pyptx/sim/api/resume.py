"""The file from which an exploration resumes: the tree, and what the runs so far have shown, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ...core.errors import SpecError
from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.source import SourceLocation
from ..exploration.events import Touch
from ..exploration.tree import Node, Tree

__all__ = ["Saved", "load", "save"]

_VERSION = 2


@dataclass
class Saved:
    """What the runs of an exploration have shown.

    Attributes:
        interleavings: runs that were different and went to their end.
        runs: all runs.
        failed: interleavings that ended with an error, or incomplete.
        failing: token of the first of them, or "".
        steps, events: sums over all interleavings.
        first: choices of the first interleaving.
        outcomes: digests of the buffers, with the choices of the first interleaving that left them.
        findings: for each launch, the findings by rule and line.
    """

    interleavings: int = 0
    runs: int = 0
    failed: int = 0
    failing: str = ""
    steps: int = 0
    events: int = 0
    first: list[str] = field(default_factory=list)
    outcomes: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    findings: list[dict[tuple[str, ...], Finding]] = field(default_factory=list)


def save(path: str, fingerprint: str, tree: Tree, saved: Saved) -> None:
    """Write the file; a file that exists is replaced as a whole."""
    value = {
        "pyptx exploration": _VERSION,
        "launch": fingerprint,
        "tree": {
            "begun": tree.begun,
            "long_passes": tree.long_passes,
            "contended": sorted(map(_listed, tree.contended), key=repr),
            "nodes": [_node(node) for node in tree.nodes.values()],
        },
        "saved": {
            **{name: value for name, value in vars(saved).items() if name not in ("outcomes", "findings")},
            "outcomes": [[list(digests), choices] for digests, choices in saved.outcomes.items()],
            "findings": [
                [[list(key), _finding(finding)] for key, finding in known.items()] for known in saved.findings
            ],
        },
    }
    part = Path(f"{path}.part")
    part.write_text(json.dumps(value, separators=(",", ":")))
    os.replace(part, path)


def load(path: str, fingerprint: str) -> tuple[Tree, Saved] | None:
    """Read the file; return None if there is none. Raise :class:`SpecError` if it is of another launch."""
    if not Path(path).exists():
        return None
    try:
        value = json.loads(Path(path).read_text())
        known = value["pyptx exploration"] == _VERSION
        same = value["launch"] == fingerprint
    except (OSError, ValueError, TypeError, KeyError):
        known = same = False
    if not known:
        raise SpecError(f"resume={path!r}: this is not the file of an exploration by this version of pyptx")
    if not same:
        raise SpecError(
            f"resume={path!r}: this file belongs to another launch",
            hint="kernel, arguments and extents must be the same; give another path to begin anew",
        )
    tree, saved = Tree(), Saved()
    tree.begun = value["tree"]["begun"]
    tree.long_passes = value["tree"]["long_passes"]
    tree.contended = frozenset(map(_tupled, value["tree"]["contended"]))
    for row in value["tree"]["nodes"]:
        node = _read_node(row)
        tree.nodes[node.prefix] = node
    rows = value["saved"]
    saved.outcomes = {tuple(digests): choices for digests, choices in rows.pop("outcomes")}
    saved.findings = [
        {tuple(key): _read_finding(finding) for key, finding in known} for known in rows.pop("findings")
    ]
    for name, each in rows.items():
        setattr(saved, name, each)
    return tree, saved


# --- the tree -----------------------------------------------------------------------------------


def _listed(key: Any) -> Any:
    return [_listed(each) for each in key] if isinstance(key, tuple) else key


def _tupled(key: Any) -> Hashable:
    return tuple(_tupled(each) for each in key) if isinstance(key, list) else key


def _touches(touches: Any) -> Any:
    return None if touches is None else [[_listed(t.object), t.kind, t.starts, t.size] for t in touches]


def _read_touches(rows: Any) -> Any:
    if rows is None:
        return None
    return tuple(
        Touch(_tupled(key), kind, None if starts is None else tuple(starts), size)
        for key, kind, starts, size in rows
    )


def _agents(agents: Mapping[str, Any]) -> dict[str, Any]:
    return {agent: _touches(touches) for agent, touches in agents.items()}


def _read_agents(rows: dict[str, Any]) -> dict[str, Any]:
    return {agent: _read_touches(touches) for agent, touches in rows.items()}


def _node(node: Node) -> dict[str, Any]:
    return {
        "prefix": node.prefix,
        "siblings": [[position, _agents(tried)] for position, tried in node.siblings.items()],
        "sleep": _agents(node.sleep),
        "done": _agents(node.done),
        "pending": node.pending,
    }


def _read_node(row: dict[str, Any]) -> Node:
    return Node(
        tuple(row["prefix"]),
        {position: _read_agents(tried) for position, tried in row["siblings"]},
        _read_agents(row["sleep"]),
        _read_agents(row["done"]),
        row["pending"],
    )


# --- findings -----------------------------------------------------------------------------------


def _place(location: SourceLocation | None) -> Any:
    if location is None:
        return None
    return [location.file, location.line, location.function, _place(location.caller)]


def _read_place(row: Any) -> SourceLocation | None:
    return None if row is None else SourceLocation(row[0], row[1], row[2], _read_place(row[3]))


def _finding(finding: Finding) -> list[Any]:
    other = [[note, _place(location)] for note, location in finding.other]
    return [
        finding.rule.name,
        finding.message,
        _place(finding.location),
        finding.thread,
        other,
        finding.schedules,
        finding.anchor,
    ]


def _read_finding(row: list[Any]) -> Finding:
    rule, message, place, thread, other, schedules, anchor = row
    notes = tuple((note, _read_place(location)) for note, location in other)
    return Finding(RULES[rule], message, _read_place(place), thread, notes, tuple(schedules), anchor)
