"""Compute how long the tiles of a persistent kernel take, by how many tiles its clusters take ahead.

List scheduling by arithmetic: no GPU.  Clusters of a grid start where there is room; a running cluster
cancels clusters that wait and computes their tiles.  It holds at most ``answers`` tiles that it has not
begun, requests included, and has at most ``ahead`` requests in flight, each of which takes a tile at once and
is answered after a latency.  The unit of time is the time of a tile.

    python benchmarks/launch_control.py                                # 4096 cubed, 74 pairs of CTAs, 256x256
    python benchmarks/launch_control.py --tiles 1024 --latency 0.01
"""

from __future__ import annotations

import argparse
import heapq
import math
from dataclasses import dataclass

#: (answers, ahead) of the columns.
RINGS = ((1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (3, 3))


@dataclass(frozen=True)
class Place:
    """Room for one cluster: when it is free, and how long a tile takes there."""

    start: float = 0.0
    tile: float = 1.0


@dataclass
class _Cluster:
    place: Place
    held: int = 0  # tiles that are not begun
    flying: int = 0  # requests
    idle: bool = False
    refused: bool = False


def static(tiles: int, places: list[Place]) -> float:
    """Return the time of the last tile if cluster n takes every tile n + len(places) * i."""
    counts = [len(range(n, tiles, len(places))) for n in range(len(places))]
    return max(place.start + count * place.tile for place, count in zip(places, counts, strict=True) if count)


def launch_control(tiles: int, places: list[Place], answers: int, ahead: int, latency: float) -> float:
    """Return the time of the last tile with cluster launch control."""
    events = [(place.start, n, "start", _Cluster(place)) for n, place in enumerate(places)]
    heapq.heapify(events)
    number, waiting, last = len(places), tiles, 0.0

    def later(time: float, what: str, cluster: _Cluster) -> None:
        nonlocal number
        heapq.heappush(events, (time, number, what, cluster))
        number += 1

    def step(now: float, cluster: _Cluster) -> None:
        nonlocal waiting
        if cluster.idle and cluster.held:
            cluster.held, cluster.idle = cluster.held - 1, False
            later(now + cluster.place.tile, "tile", cluster)
        while not cluster.refused and cluster.flying < ahead and cluster.held + cluster.flying < answers:
            cluster.flying += 1
            later(now + latency, "granted" if waiting else "refused", cluster)
            waiting -= waiting > 0

    while events:
        now, _, what, cluster = heapq.heappop(events)
        if what == "start":
            if not waiting:
                continue
            waiting -= 1
            cluster.held, cluster.idle = 1, True
            later(now, "begin", cluster)  # clusters that start at the same time start before any requests
            continue
        elif what == "tile":
            last, cluster.idle = now, True
        elif what != "begin":
            cluster.flying -= 1
            cluster.held += what == "granted"
            cluster.refused |= what == "refused"
        step(now, cluster)
    return last


def cases(pairs: int) -> dict[str, list[Place]]:
    """Return the cases of the table: where clusters find room, and when."""
    eighth = pairs // 8
    return {
        "all alike": [Place()] * pairs,
        "an eighth 10% slower": [Place(tile=1.1)] * eighth + [Place()] * (pairs - eighth),
        "an eighth half a tile late": [Place(start=0.5)] * eighth + [Place()] * (pairs - eighth),
        "an eighth two tiles late": [Place(start=2.0)] * eighth + [Place()] * (pairs - eighth),
        "half of them a tenth late": [Place(start=0.1)] * (pairs // 2) + [Place()] * (pairs - pairs // 2),
    }


def rows(tiles: int, pairs: int, latency: float) -> list[list[str]]:
    """Return the rows of the table: the time of the last tile in tiles."""
    found = []
    for name, places in cases(pairs).items():
        times = [static(tiles, places), *(launch_control(tiles, places, *ring, latency) for ring in RINGS)]
        found.append([name, *(f"{time:.2f}" for time in times)])
    return found


HEADS = ["pairs", "static", *(f"{answers}, {ahead}" for answers, ahead in RINGS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiles", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=74)
    parser.add_argument("--latency", type=float, default=0.05, help="of an answer, in tiles")
    given = parser.parse_args()
    print(f"{given.tiles} tiles, {given.pairs} pairs: at least {math.ceil(given.tiles / given.pairs)} rounds")
    print(f"| {' | '.join(HEADS)} |\n|---{'|--:' * (len(HEADS) - 1)}|")
    for row in rows(given.tiles, given.pairs, given.latency):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
