"""The lowest layer of pyptx: PTX scalar types, source locations, errors, findings and users' arrays.

No module here depends on instructions, kernels or the simulated machine.
"""
