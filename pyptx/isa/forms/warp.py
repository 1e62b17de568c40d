"""Warp-level instructions."""

TEXT = r"""
[elect.sync] "Elect one lane of the mask: p is true in it alone, d is its number."
elect.sync  =d|p: b32, membermask: b32;
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-elect-sync

[shfl.sync] "Exchange a register between the lanes of a warp; p tells whether the source lane was in range."
shfl.sync.mode.b32  =d{|p}: b32, a: b32, b: u32, c: u32, membermask: b32;
  .mode = { .up, .down, .bfly, .idx }
  since 6.0
  see data-movement-and-conversion-instructions-shfl-sync
"""
