"""Extended-precision integer arithmetic: nothing here is modelled yet."""
