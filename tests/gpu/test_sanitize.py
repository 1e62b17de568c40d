"""What ``tests.gpu.sanitize`` reads in the output of compute-sanitizer; the output here is shortened, not run."""

from __future__ import annotations

from tests.gpu.sanitize import reports

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at store+0x100 in wrong_address.py:29
=========     by thread (104,0,0) in block (7,0,0)
=========     Access to 0x7fbbaa801fa0 is out of bounds
=========         Device Frame: double+0x20 in wrong_address.py:46
=========
========= Invalid __global__ write of size 4 bytes
=========     at store+0x100 in wrong_address.py:29
=========     by thread (105,0,0) in block (7,0,0)
3 passed in 4.00s
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Warning: Race reported between Write access at copy+0x1b0 in kernels.py:31
=========     and Read access at copy+0x2f0 in kernels.py:40 [32 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""


INITCHECK = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 8 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4, CompareEqFunctor<c10::BFloat16>>(int, T2, T3)+0x150
=========     by thread (0,0,0) in block (8,0,0)
=========     Address 0x7f3961fb0e00
"""


def test_equal_reports_are_counted_together() -> None:
    assert dict(reports(MEMCHECK)) == {
        "Invalid __global__ write of size 4 bytes at store+.. in wrong_address.py:29": 2
    }
    (report,) = reports(RACECHECK)
    assert report == "Warning: Race reported between Write access at copy+.. in kernels.py:31"


def test_reports_without_a_line_name_the_kernel() -> None:
    (report,) = reports(INITCHECK)
    assert "read of size 8 bytes at void at::native" in report and "CompareEqFunctor" in report


def test_clean_output_has_no_reports() -> None:
    assert not reports("========= COMPUTE-SANITIZER\n5 passed\n========= ERROR SUMMARY: 0 errors\n")
