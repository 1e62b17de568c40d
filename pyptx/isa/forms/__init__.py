"""The table: one module per chapter of the PTX manual, each with a ``TEXT`` in the table's notation.

docs/notation.md describes the notation.  A chapter may hold pure functions that its entries name in
their ``check`` clause.
"""
