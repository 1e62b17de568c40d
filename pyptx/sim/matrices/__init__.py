"""Matrix operands: from registers and shared memory to matrices of codes, and back."""
