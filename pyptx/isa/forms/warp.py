"""Warp-level instructions."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Operand, Pair, Sink

TEXT = r"""
[elect.sync] "Elect one lane of the mask: p is true in this lane only, d is its number."
elect.sync  =d|p: u32, membermask: u32;
  since 8.0 on sm_90+
  check operands predicate_is_written
  see parallel-synchronization-and-communication-instructions-elect-sync

[shfl.sync] "Exchange a register between the lanes of a warp; p is true if the source lane was in range."
shfl.sync.mode.b32  =d{|p}: b32, a: b32, b: b32, c: b32, membermask: u32;
  .mode = { .up, .down, .bfly, .idx }
  since 6.0
  check operands result_is_written
  NOT REGISTERED shfl without .sync: gone from sm_70 on
  see data-movement-and-conversion-instructions-shfl-sync

[vote.sync] "Vote: is the predicate true in all lanes of the mask, in any lane, or equal in all lanes?"
vote.sync.mode.pred  =d: pred, !a: pred, membermask: u32;
  .mode = { .all, .any, .uni }
  since 6.0
  NOT REGISTERED vote without .sync: gone from sm_70 on
  see parallel-synchronization-and-communication-instructions-vote-sync

[vote.sync.ballot] "Collect the predicates of the mask's lanes, one bit for each lane."
vote.sync.ballot.b32  =d: b32, !a: pred, membermask: u32;
  since 6.0
  see parallel-synchronization-and-communication-instructions-vote-sync

[match.any.sync] "Mask of the lanes that have the same value as this lane."
match.any.sync.type  =d: u32, a: .type, membermask: u32;
  .type = { .b32, .b64 }
  since 6.0
  see parallel-synchronization-and-communication-instructions-match-sync

[match.all.sync] "The member mask if all lanes have the same value, else 0; p is true in the first case."
match.all.sync.type  =d{|p}: u32, a: .type, membermask: u32;
  .type = { .b32, .b64 }
  since 6.0
  see parallel-synchronization-and-communication-instructions-match-sync

[activemask] "Mask of the lanes that execute this instruction together."
activemask.b32  =d: b32;
  since 6.2
  see parallel-synchronization-and-communication-instructions-activemask

[redux.sync] "Combine an integer over the lanes of the mask."
redux.sync.op.type  =d: .type, a: .type, membermask: u32;
  .op = { .add, .min, .max }
  .type = { .u32, .s32 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-redux-sync

[redux.sync.bits] "Combine the bits of a register over the lanes of the mask."
redux.sync.op.b32  =d: u32, a: u32, membermask: u32;
  .op = { .and, .or, .xor }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-redux-sync

[redux.sync.f32] "Smallest or largest f32 over the lanes of the mask."
redux.sync.op{.abs}{.NaN}.f32  =d: f32, a: f32, membermask: u32;
  .op = { .min, .max }
  since 8.6 on sm_100f
  see parallel-synchronization-and-communication-instructions-redux-sync
"""


def predicate_is_written(operands: Mapping[str, Operand]) -> str | None:
    """Refuse ``_`` as the predicate of d|p."""
    given = operands["d"]
    return (
        "the predicate p is _; expected a register"
        if isinstance(given, Pair) and isinstance(given.second, Sink)
        else None
    )


def result_is_written(operands: Mapping[str, Operand]) -> str | None:
    """Refuse ``_`` as d of d|p."""
    given = operands["d"]
    return (
        "d is _; expected a register" if isinstance(given, Pair) and isinstance(given.first, Sink) else None
    )
