"""Tensor copies of PTX 9.4: nothing of them is modelled yet."""
