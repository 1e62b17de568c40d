"""The ground floor: PTX scalar types, source locations, errors, findings and foreign arrays.

Nothing here knows what an instruction, a kernel or a machine is.
"""
