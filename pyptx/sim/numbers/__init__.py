"""What numbers become: rounding, formats, special functions, products of matrices. Nothing here knows a
machine.
"""
