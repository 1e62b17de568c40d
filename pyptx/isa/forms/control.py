"""Control flow and miscellaneous instructions."""

TEXT = r"""
[bra] "Branch; .uni promises that all live lanes take it together."
bra{.uni}  target label;
  see control-flow-instructions-bra

[ret] "Return; in an entry, end the thread."
ret{.uni};
  see control-flow-instructions-ret

[exit] "End the thread."
exit;
  see control-flow-instructions-exit

[trap] "Abort the grid with an error."
trap;
  see miscellaneous-instructions-trap
"""
