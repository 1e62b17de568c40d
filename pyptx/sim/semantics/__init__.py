"""What each instruction does: one module per chapter, twin of :mod:`pyptx.isa.forms`."""
