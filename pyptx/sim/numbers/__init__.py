"""Arithmetic on numbers: rounding, formats, special functions, products of matrices.

This package does not depend on a machine, its threads or its memory.
"""
