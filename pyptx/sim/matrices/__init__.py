"""Matrix operands: converts registers and shared memory to matrices of codes, and back."""
