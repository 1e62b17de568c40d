"""Runs the operations of one basic block for a split."""

from __future__ import annotations

from typing import Any

from ..code.function import CodeBlock
from ..code.translate import array_function, lane_function
from .tracked import run_tracked
from .undefined import UnwrittenLoad
from .warp import Split

__all__ = ["run_operations"]


def run_operations(s: Split, block: CodeBlock) -> Any:
    """Run the block, and return the result of its generated function.

    If the block can wait (yields), the result is the condition of the wait, or None if the split need not
    wait. Otherwise, for a split of one lane, the result is the number of the next block; for other splits it
    is None.
    """
    frame = s.frame
    if frame.undefined_rows and frame.registers.undefined.in_threads(frame.span):
        return run_tracked(s, block)
    try:
        if s.lane >= 0 and not block.deferred:
            function = block.lane
            if function is None:
                # Translating a long block takes long, so check the time limit first.
                s.warp.cta.machine.check_time()
                function = lane_function(block)
            return function(s, s.regs if s.regs is not None else s.gather())
        if s.regs is not None:
            s.scatter()
        function = block.wide if s.k is None else block.masked
        if function is None:
            s.warp.cta.machine.check_time()
            function = array_function(block, masked=s.k is not None)
        return function(s, frame)
    except UnwrittenLoad:
        return run_tracked(s, block, s.op)
