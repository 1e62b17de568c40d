"""Near misses by cluster launch control, each run with every assignment: most show their defect in some of them only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pyptx import sim

from .near_miss import NearMiss
from .stealing import Stealing, defective

__all__ = ["ONE_REQUEST", "launch_misses"]

#: One thread of each CTA requests one cluster, and does its tile as well as its own. {who} requests, {skip} others.
ONE_REQUEST = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry once(.param .u64 out)
{{
    .shared .align 16 .b8 answer[16];
    .shared .align 8 .b64 bar;
    .reg .pred %other, %done, %more;
    .reg .b32 %tile, %rank, %size;
    .reg .b64 %out, %at;
    .reg .b128 %response;
    ld.param.u64 %out, [out];
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %size, %cluster_nctarank;
    mov.u32 %tile, %ctaid.x;
    setp.ne.u32 %other, %rank, {who};
    mad.wide.u32 %at, %tile, 4, %out;
    st.global.u32 [%at], %tile;
    @%other bra END;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [bar], 0;
    @!%done bra WAIT;
    ld.shared.b128 %response, [answer];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %more, %response;
    @!%more bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %tile, %response;
TAKE:
    mad.wide.u32 %at, %tile, 4, %out;
    st.global.u32 [%at], %tile;
    add.u32 %tile, %tile, 1;
    sub.u32 %size, %size, 1;
    setp.ne.u32 %more, %size, 0;
    @%more bra TAKE;
END:
    {end}
    ret;
}}
"""
_TOGETHER = "barrier.cluster.arrive;\nbarrier.cluster.wait;"


def launch_misses() -> Iterator[NearMiss]:
    """Yield all of them."""
    for one in defective():

        def run(one: Stealing = one, **how: Any) -> sim.Report:
            return one.launch(launch_control="every", **how)[0]

        yield NearMiss(f"stealing-{one.name}", run)

    def both(**how: Any) -> sim.Report:
        """Each CTA of a cluster requests a cluster, and nothing orders the two requests."""
        text = ONE_REQUEST.format(who="%rank", end=_TOGETHER)
        arguments = [np.zeros(6, np.uint32)]
        return sim.load(text).launch(
            grid=6, block=1, cluster=2, args=arguments, launch_control="every", **how
        )

    yield NearMiss("stealing-both-ctas", both)
