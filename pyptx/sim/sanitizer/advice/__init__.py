"""Why two accesses are not ordered, and what mends the kernel: the texts and edits of findings.

:mod:`.history` keeps the last synchronizations of each CTA, :mod:`.sides` asks it about the threads of the
two accesses, and :mod:`.adviser` chooses the advice.
"""
