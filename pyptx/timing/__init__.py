"""Timing of kernels on a GPU that is not here: constants, clock, closed forms, cost of machine code."""
