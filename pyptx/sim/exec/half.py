"""Half-precision and mixed-precision arithmetic: nothing here is modelled yet."""
