"""Communities in a graph of links, by the Louvain method; pure, and the same graph always gives the same answer."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

Weights = list[dict[int, float]]  # per node: neighbour -> weight; a node's weight to itself counts both ends

LEAST_GAIN = 1e-9


def louvain(edges: Iterable[tuple[int, int]], *, seed: int = 0) -> dict[int, int]:
    """Node -> number of its community, for every node that has an edge; numbers from 0, as the nodes first appear.

    Louvain (Blondel and others, 2008): move single nodes to where modularity gains most until none gains, make each
    community one node, and begin again. Edges have no direction; the same pair twice weighs double.
    """
    edges = list(edges)
    numbers = {node: at for at, node in enumerate(dict.fromkeys(node for edge in edges for node in edge))}
    graph = weights_of(((numbers[a], numbers[b]) for a, b in edges), len(numbers))
    member = list(range(len(numbers)))  # node -> community
    rng = Random(seed)
    while True:
        found, moved = moved_nodes(graph, rng)
        if not moved:
            break
        member = [found[community] for community in member]
        graph = merged(graph, found)
    names: dict[int, int] = {}
    return {node: names.setdefault(member[at], len(names)) for node, at in numbers.items()}


def weights_of(edges: Iterable[tuple[int, int]], count: int) -> Weights:
    graph: Weights = [{} for _ in range(count)]
    for a, b in edges:
        for node, other in ((a, b), (b, a)):
            graph[node][other] = graph[node].get(other, 0.0) + 1.0
    return graph


def moved_nodes(graph: Weights, rng: Random) -> tuple[list[int], bool]:
    """Each node's community after single moves, numbered from 0, and whether any node moved."""
    member = list(range(len(graph)))
    degree = [sum(weights.values()) for weights in graph]
    total = list(degree)  # of each community
    twice = sum(degree) or 1.0  # the weight of all edges, both ends
    order = list(range(len(graph)))
    rng.shuffle(order)
    any_moved, moving = False, True
    while moving:
        moving = False
        for node in order:
            home = member[node]
            near: dict[int, float] = {home: 0.0}
            for other, weight in graph[node].items():
                if other != node:
                    near[member[other]] = near.get(member[other], 0.0) + weight
            total[home] -= degree[node]
            share = degree[node] / twice
            best, most = home, near[home] - share * total[home] + LEAST_GAIN
            for community, weight in near.items():
                if (gain := weight - share * total[community]) > most:
                    best, most = community, gain
            total[best] += degree[node]
            if best != home:
                member[node] = best
                moving = any_moved = True
    names: dict[int, int] = {}
    return [names.setdefault(community, len(names)) for community in member], any_moved


def merged(graph: Weights, member: list[int]) -> Weights:
    """The graph whose nodes are the communities."""
    out: Weights = [{} for _ in range(max(member) + 1)]
    for node, weights in enumerate(graph):
        mine = out[member[node]]
        for other, weight in weights.items():
            mine[member[other]] = mine.get(member[other], 0.0) + weight
    return out
