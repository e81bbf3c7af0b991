"""Graphs of networkx as scenarios."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from fairmesh._fairmesh import Scenario
from fairmesh.errors import ScenarioError, SettingError

# Attributes of edges that are keys of links (docs/scenarios/topology.md) and equal in both directions.
_SHARED = ("rate", "mcs", "streams", "width", "guard", "radio")


def scenario(
    graph: Any,
    gateway: Any,
    flows: str,
    duration: str,
    position: str,
    propagation: bool,
    changes: Mapping[str, Any] | None,
    name: str | None,
) -> Scenario:
    """Builds the scenario of `Scenario.from_networkx`."""
    _check(graph)
    nodes = [(_name(node), _place(node, data, position)) for node, data in graph.nodes(data=True)]
    edges = [] if propagation else _links(graph)
    lacking = [node for node, place in nodes if place is None]
    if not edges and lacking:
        reason = "is absent" if propagation else "is absent, and the graph has no edges"
        raise _wrong(f"nodes[{lacking[0]!r}].{position}", reason, "x and y in metres")
    gateways = _gateways(graph, gateway)
    topology: dict[str, Any] = {"gateway": gateways[0]} if len(gateways) == 1 else {"gateways": gateways}
    if edges:
        topology["links"] = [link for link, _ in edges]
    document = {
        "duration": duration,
        "topology": topology,
        "traffic": {"flows": flows},
        "node": [{"id": node} | ({} if place is None else {"position": place}) for node, place in nodes],
    }
    name = name or str(graph.graph.get("name") or "") or "graph"
    try:
        return Scenario._from_document(document, dict(changes or {}), name)
    except ScenarioError as e:
        raise _named(e, [edge for _, edge in edges], [node for node, _ in nodes]) from None


def _check(graph: Any) -> None:
    if not all(hasattr(graph, part) for part in ("nodes", "edges", "is_directed", "is_multigraph")):
        found = type(graph).__name__
        raise SettingError(
            f"graph: found {found}; expected a graph of networkx", key="graph", expected="a graph of networkx"
        )
    if graph.is_multigraph():
        raise _wrong("graph", f"is a {type(graph).__name__}", "a Graph or DiGraph, with one edge per pair of nodes")
    if not len(graph):
        raise _wrong("graph", "has no nodes", "at least two")


def _name(node: Any) -> int | str:
    if isinstance(node, Integral) and not isinstance(node, bool) and int(node) >= 0:
        return int(node)
    if isinstance(node, str) and node:
        return node
    expected = "a text or an integer of 0 or more; networkx.convert_node_labels_to_integers gives such names"
    raise _wrong(f"nodes[{node!r}]", "is no name of a node", expected)


def _place(node: Any, data: Mapping[str, Any], position: str) -> list[float] | None:
    value = data.get(position)
    if value is None:
        return None
    try:
        x, y = (float(v) for v in value)
    except (TypeError, ValueError):
        x = y = math.nan
    if not (math.isfinite(x) and math.isfinite(y)):
        raise _wrong(f"nodes[{node!r}].{position}", f"found {value!r}", "x and y in metres, such as (180.0, 60.0)")
    return [x, y]


def _gateways(graph: Any, gateway: Any) -> list[int | str]:
    if gateway is None:
        chosen = [node for node, data in graph.nodes(data=True) if data.get("gateway")]
        if not chosen:
            raise _wrong("gateway", "is absent, and no node has the attribute `gateway`", "the name of a node")
    else:
        several = isinstance(gateway, Iterable) and not isinstance(gateway, (str, tuple))
        chosen = list(gateway) if several else [gateway]
    for node in chosen:
        if node not in graph:
            raise _wrong("gateway", f"there is no node {node!r}", f"one of {_some(graph.nodes)}")
    return [_name(node) for node in chosen]


def _links(graph: Any) -> list[tuple[dict[str, Any], tuple[Any, Any]]]:
    """The links, each with its edge. Opposite edges of a directed graph are one link."""
    links: list[tuple[dict[str, Any], tuple[Any, Any]]] = []
    seen = set()
    for u, v, data in graph.edges(data=True):
        if u == v:
            raise _wrong(_edge(u, v), "joins a node to itself", "two nodes")
        if (v, u) in seen:
            continue
        seen.add((u, v))
        back = graph.get_edge_data(v, u) if graph.is_directed() else None
        link = {"from": _name(u), "to": _name(v), **_attributes(u, v, data)}
        if back is not None:
            other = _attributes(v, u, back)
            for key in _SHARED:
                if link.get(key) != other.get(key):
                    expected = f"the value of {_edge(v, u)}.{key}, {back.get(key)!r}"
                    raise _wrong(f"{_edge(u, v)}.{key}", f"found {data.get(key)!r}", expected)
            if "signal" in link or "signal" in other:
                if "signal" not in link or "signal" not in other:
                    lacks = (u, v) if "signal" not in link else (v, u)
                    raise _wrong(f"{_edge(*lacks)}.signal", "is absent", "dBm, as the opposite edge has")
                link["signal_back"] = other["signal"]
            link["delivery_back"] = other.get("delivery", 1.0)
        elif graph.is_directed():
            link["directed"] = True
        links.append((link, (u, v)))
    return links


def _attributes(u: Any, v: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a link that an edge has. Other attributes, such as `weight`, are ignored."""
    link: dict[str, Any] = {}
    at = _edge(u, v)
    if data.get("loss") is not None:
        if data.get("delivery") is not None:
            raise _wrong(f"{at}.loss", "is given beside `delivery`", "one of both")
        link["delivery"] = 1.0 - _number(f"{at}.loss", data["loss"], 0.0, 1.0, "a probability from 0 to 1")
    if data.get("delivery") is not None:
        link["delivery"] = _number(f"{at}.delivery", data["delivery"], 0.0, 1.0, "a probability from 0 to 1")
    if data.get("signal") is not None:
        link["signal"] = _number(f"{at}.signal", data["signal"], -200.0, 60.0, "dBm")
    for key in _SHARED:
        value = data.get(key)
        if value is None:
            continue
        if key in ("mcs", "streams"):
            link[key] = int(_number(f"{at}.{key}", value, 0.0, 255.0, "a whole number", whole=True))
        elif key == "rate" and not isinstance(value, str):
            expected = 'bit/s as a number, or a text such as "11 Mbit/s"'
            link[key] = f"{round(_number(f'{at}.rate', value, 1.0, 1e12, expected))} bit/s"
        elif isinstance(value, str):
            link[key] = value
        else:
            raise _wrong(f"{at}.{key}", f"found {value!r}", "a text")
    return link


def _number(at: str, value: Any, low: float, high: float, expected: str, *, whole: bool = False) -> float:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not low <= number <= high or (whole and number != int(number)):
        raise _wrong(at, f"found {value!r}", expected)
    return number


def _edge(u: Any, v: Any) -> str:
    return f"edges[{u!r}, {v!r}]"


def _some(nodes: Iterable[Any]) -> str:
    names = [repr(n) for n in nodes]
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def _named(e: ScenarioError, edges: list[tuple[Any, Any]], nodes: list[Any]) -> ScenarioError:
    """The error with the node or edge in place of the key of a scenario file."""
    place = re.match(r"(topology\.links|node)\[(\d+)\](.*)", e.key or "")
    message = str(e)
    if e.file is not None:
        message = message.removeprefix(e.file).lstrip(":0123456789 ")
    if place is None:
        return ScenarioError(message, key=e.key, expected=e.expected)
    kind, index, rest = place[1], int(place[2]), place[3]
    key = (_edge(*edges[index]) if kind != "node" else f"nodes[{nodes[index]!r}]") + rest
    return ScenarioError(message.replace(e.key or "", key, 1), key=key, expected=e.expected)


def _wrong(key: str, problem: str, expected: str) -> ScenarioError:
    return ScenarioError(f"{key}: {problem}; expected {expected}", key=key, expected=expected)
