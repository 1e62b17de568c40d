"""Control flow and miscellaneous instructions."""

TEXT = r"""
see control-flow-instructions-<opcode>

[bra] "Branch to a label; .uni promises that all live lanes of the warp take the branch together."
bra{.uni}  target label;

[brx.idx] "Branch to the label that an index chooses from a list; an index past the end of the list is undefined."
brx.idx{.uni}  index: u32 reg, tlist label targets;
  since 6.0
  see control-flow-instructions-brx-idx

[call] "Call a device function and take its results."
call{.uni}  =results arguments, func symbol function {, params arguments};

[call.void] "Call a device function that has no results."
call{.uni}  func symbol procedure {, params arguments};

[call.indirect] "Call the function that a register points to and take its results; a prototype or the list of possible targets is named."
call{.uni}  =results arguments, fptr: u64 reg {, params arguments}, fproto label prototype;
  since 2.1

[call.indirect.void] "Call the function that a register points to, which has no results."
call{.uni}  fptr: u64 reg {, params arguments}, fproto label void_prototype;
  since 2.1

[ret] "Return; in an entry, end the thread."
ret{.uni};

[exit] "End the thread."
exit;

[trap] "Abort the grid with an error."
trap;
  see miscellaneous-instructions-trap
"""
