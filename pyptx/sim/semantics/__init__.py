"""The functions that execute the instructions: one module per chapter of :mod:`pyptx.isa.forms`."""
