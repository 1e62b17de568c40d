"""What the programs of the kernels on rows share: runs in the simulator, sizes, whether there is a GPU."""

from __future__ import annotations

from pyptx import bf16, f16, f32

__all__ = ["hopper", "one_row", "one_row_ahead", "queued", "simulated", "type_of"]

#: Threads of a CTA that has a row of its own: at most, and at least for each byte of an element.
MOST, LEAST = 1024, 128
#: Rows from one that a CTA loads to the one that L2 gets meanwhile, half as many as an H200 has SMs; and the
#: first one that L2 gets so for CTAs of one row.
AHEAD, AHEAD_FROM = 66, 1024
#: What an H200 was fastest with for norms whose CTAs take rows from a queue, by the bytes of an element.
QUEUED = {
    4: {
        "design": "ring",
        "threads": 512,
        "teams": 1,
        "ctas": 132,
        "stages": 2,
        "prefetch": AHEAD,
        "keep": False,
        "resident": 1,
    },
    2: {"design": "ring", "threads": 256, "teams": 1, "ctas": 264, "stages": 4, "store": "bulk"},
}


def one_row(threads):
    """Return options of CTAs with one row, which the copy engine brings and stores; 1024 threads on an SM."""
    sizes = {"teams": 1, "stages": 1, "store": "bulk", "resident": max(1, MOST // threads)}
    return {"design": "ring", "threads": threads, **sizes}


def one_row_ahead(N, dtype):
    """Return options of such CTAs whose threads store, while the copy engine brings a later row into L2.

    A thread has four pieces of 16 bytes or less: none are returned for rows that are too long for it.
    """
    pieces = -(-N * dtype.nbytes // 16)
    threads = max(LEAST * dtype.nbytes, 32 * -(-pieces // (4 * 32)))
    if threads > MOST:
        return {}
    return {
        **one_row(threads),
        "store": "direct",
        "keep": False,
        "prefetch": AHEAD,
        "prefetch_from": AHEAD_FROM,
    }


def simulated(kernel, *inputs, schedule="random", seed=0):
    """Run a kernel in the simulator, whose verdict must be clean for every schedule; return the outputs."""
    report = kernel.simulate(*inputs, schedule=schedule, seed=seed)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    return report.outputs


def hopper():
    """Return torch if it sees a GPU that runs sm_90a, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else None


def type_of(array):
    """Return the PTX type of a numpy array's elements: f32, f16 or bf16."""
    return next(dtype for dtype in (f32, f16, bf16) if array.dtype == dtype.dtype)


def queued(dtype, tuning, **own):
    """Return the caller's options of a norm's plan; of one that asks for a queue alone, with its sizes.

    ``own`` are sizes that this norm has instead of those of all norms.
    """
    return {**QUEUED[dtype.nbytes], **own, **tuning} if tuning == {"queue": True} else tuning
