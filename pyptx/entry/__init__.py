"""``@kernel``: specialize a recorded function, choose GPU or simulator, call."""

from .decorator import Kernel, kernel
from .specialize import Specialization

__all__ = ["Kernel", "Specialization", "kernel"]
