"""Matrix operands: convert registers and shared memory to matrices of codes, and back."""
