"""Stands for ncu: runs the program, writes a file, and prints pages in the form that ncu documents.

``FAKE_NCU`` says what else happens: ``denied`` (no permission), ``none`` (no kernels), ``broken``.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

DETAILS = """"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"
"0","7","python","127.0.0.1","gemm","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","us","181.54",
"0","7","python","127.0.0.1","gemm","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Compute (SM) Throughput","%","87.25",
"0","7","python","127.0.0.1","gemm","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Elapsed Cycles","cycle","310,000",
"0","7","python","127.0.0.1","gemm","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","Launch Statistics","Registers Per Thread","register/thread","168",
"0","7","python","127.0.0.1","gemm","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","GPU Speed Of Light Throughput","","","","HighPipeUtilization","INF","busy, that is"
"1","7","python","127.0.0.1","add","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","us","3.10",
"""
SOURCE = """"File Path","/home/me/gemm.py"
"Function Name","gemm"
"Line No","Source","Address","Source","Warp Stall Sampling (All Samples)","Instructions Executed"
"12","ptx.wgmma.mma_async(acc, a, b, atype=bf16, scale_d=1)","-","-","750","10"
"","","0x7f00","      WARPGROUP.ARRIVE","700","8"
"","","0x7f10","      HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8]","50","2"
"14","slot = consumer.acquire()","-","-","250","30"
"15","x = 1","-","-","0","30"
"File Path","/home/me/helpers.py"
"Function Name","gemm"
"Line No","Source","Address","Source","Warp Stall Sampling (All Samples)","Instructions Executed"
"3","wait(slot)","-","-","1,000","30"
"File Path","/home/me/add.py"
"Function Name","add"
"Line No","Source","Address","Source","Warp Stall Sampling (All Samples)","Instructions Executed"
"""


def main(words: list[str]) -> int:
    mode = os.environ.get("FAKE_NCU", "")
    if "--import" in words:
        if mode == "broken":
            print("==ERROR== the file is broken")
            return 1
        print("==PROF== a message\n" + (DETAILS if words[words.index("--page") + 1] == "details" else SOURCE))
        return 0
    given = dict(itertools.pairwise(words))
    log = Path(given["--log-file"])
    if mode == "denied":
        log.write_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
        return 1
    program = words[words.index(sys.executable) :]
    status = subprocess.run(program).returncode
    if mode == "none":
        log.write_text("==WARNING== No kernels were profiled.\n")
        return status
    if mode == "failed":
        log.write_text("==PROF== connected\n==ERROR== The target application returned an error code (1).\n")
        return 1
    Path(given["--export"]).write_text(json.dumps(words))
    return status


sys.exit(main(sys.argv[1:]))
