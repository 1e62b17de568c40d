"""``@kernel``: makes a function a kernel, specializes it, and runs it on the GPU or in the simulator."""

from .decorator import Kernel, kernel
from .specialize import Specialization

__all__ = ["Kernel", "Specialization", "kernel"]
