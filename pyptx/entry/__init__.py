"""``@kernel``: specialise a recorded function, choose GPU or simulator, call."""

from .decorator import Kernel, kernel
from .specialise import Specialization

__all__ = ["Kernel", "Specialization", "kernel"]
