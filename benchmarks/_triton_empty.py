"""An empty kernel of Triton, in a file of its own because Triton reads a kernel's source from its file."""

import triton


@triton.jit
def empty(a, b, c):
    pass
