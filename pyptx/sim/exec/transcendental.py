"""Roots, reciprocals and transcendental functions: nothing here is modelled yet."""
