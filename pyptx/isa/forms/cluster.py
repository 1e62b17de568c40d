"""Clusters and addresses: cluster barriers, mapa, getctarank, isspacep."""

TEXT = r"""
see data-movement-and-conversion-instructions-<opcode>

[barrier.cluster.arrive] "Arrive at the cluster's barrier, without waiting."
barrier.cluster.arrive{.sem}{.aligned};
  .sem = { .release since 8.0, .relaxed since 8.0 }
  since 7.8 on sm_90+
  see parallel-synchronization-and-communication-instructions-barrier-cluster

[barrier.cluster.wait] "Wait until all threads of the cluster have arrived."
barrier.cluster.wait{.acquire}{.aligned};
  .acquire since 8.0
  since 7.8 on sm_90+
  see parallel-synchronization-and-communication-instructions-barrier-cluster

[mapa] "Address in CTA b of the cluster that corresponds to address a in this CTA's shared memory."
mapa{.space}.type  =d: .type, a: .type reg, b: u32;
  .space = { .shared::cluster }
  .type = { .u32, .u64 }
  since 7.8 on sm_90+
  check generic_is_64_bit

[getctarank] "Rank in the cluster of the CTA whose shared memory a points to."
getctarank{.space}.type  =d: u32, a: .type reg;
  .space = { .shared::cluster }
  .type = { .u32, .u64 }
  since 7.8 on sm_90+
  check generic_is_64_bit

[isspacep] "Ask whether the generic address a points into a state space."
isspacep.space  =p: pred, a: u64 reg;
  .space = { .const since 3.1, .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+,
             .param since 7.7, .param::entry since 8.3 }
"""


def generic_is_64_bit(chosen: dict[str, str]) -> str | None:
    """Refuse .u32 for generic addresses, which have 64 bits with .address_size 64."""
    if chosen["type"] == "u32" and "space" not in chosen:
        return "a generic address has 64 bits: write .u64, not .u32"
    return None
