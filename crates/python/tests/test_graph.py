"""Scenarios from graphs of networkx."""

from __future__ import annotations

from typing import Any

import networkx
import pytest

import fairmesh
from fairmesh import Scenario, ScenarioError


def pair(**attributes: Any) -> Any:
    graph = networkx.Graph()
    graph.add_edge("gw", "home", **attributes)
    return graph


def test_edges_are_links_with_their_rates_and_losses() -> None:
    graph = networkx.path_graph(4)
    graph.edges[0, 1].update(rate="2 Mbit/s", weight=7)
    graph.edges[1, 2]["loss"] = 0.25
    graph.edges[2, 3].update(rate=5.5e6, signal=-70)
    mesh = Scenario.from_networkx(graph, gateway=0, duration="4 s")
    assert mesh["topology.links"] == [
        {"from": 0, "to": 1, "rate": "2 Mbit/s"},
        {"from": 1, "to": 2, "delivery": 0.75},
        {"from": 2, "to": 3, "rate": "5.5 Mbit/s", "signal": -70.0},
    ]
    assert mesh.flows["flow"] == ["1->0", "2->0", "3->0"] and mesh.flows["hops"] == [1, 2, 3]
    clean = Scenario.from_networkx(networkx.path_graph(4), gateway=0, duration="4 s")
    assert fairmesh.run(mesh).runs["fingerprint"] != fairmesh.run(clean).runs["fingerprint"]


def test_a_path_graph_is_the_chain_of_links() -> None:
    mesh = Scenario.from_networkx(networkx.path_graph(3), gateway=0, duration="2 s")
    text = 'duration = "2 s"\n[topology]\nlinks = [[0, 1], [1, 2]]\ngateway = 0\n[traffic]\nflows = "up"\n'
    same = Scenario.from_toml(text)
    assert fairmesh.run(mesh).runs["fingerprint"] == fairmesh.run(same).runs["fingerprint"]


def test_positions_make_links_where_no_edges_do() -> None:
    graph = networkx.Graph(name="street")
    for i in range(4):
        graph.add_node(i, pos=(200.0 * i, 0.0), gateway=i == 0)
    mesh = Scenario.from_networkx(graph, duration="2 s")
    chain = Scenario.chain(3, duration="2 s")
    assert mesh.name == "street" and mesh.nodes["x_m"] == [0.0, 200.0, 400.0, 600.0]
    assert fairmesh.run(mesh).runs["fingerprint"] == fairmesh.run(chain).runs["fingerprint"]
    graph.add_edges_from([(0, 3), (0, 1), (0, 2)])
    assert Scenario.from_networkx(graph).flows["hops"] == [1, 1, 1]
    assert Scenario.from_networkx(graph, propagation=True).flows["hops"] == [1, 2, 3]


def test_opposite_edges_of_a_directed_graph_are_one_link() -> None:
    graph = networkx.DiGraph()
    graph.add_edge("a", "b", delivery=0.9, signal=-60, rate="2 Mbit/s")
    graph.add_edge("b", "a", loss=0.3, signal=-65, rate="2 Mbit/s")
    graph.add_edge("b", "c")
    graph.add_edge("c", "b")
    graph.add_edge("c", "a")
    mesh = Scenario.from_networkx(graph, gateway="a")
    first, second, third = mesh["topology.links"]
    assert (first["delivery"], first["delivery_back"], first["signal_back"]) == (0.9, 0.7, -65.0)
    assert "directed" not in second and third["directed"] is True
    assert mesh.flows["hops"] == [1, 2]


def test_keys_are_set_together_with_the_graph() -> None:
    graph = pair(rate="54 Mbit/s")
    with pytest.raises(ScenarioError, match=r"^edges\['gw', 'home'\].rate: "):
        Scenario.from_networkx(graph, gateway="gw")
    mesh = Scenario.from_networkx(
        graph, gateway=["gw"], flows="down", changes={"radio.phy": "802.11g", "duration": "3 s"}, name="pair"
    )
    assert (mesh.name, mesh.duration, mesh.flows["flow"]) == ("pair", 3.0, ["gw->home"])


def test_several_gateways_come_from_the_attribute() -> None:
    graph = networkx.path_graph(5)
    for end in (0, 4):
        graph.nodes[end]["gateway"] = True
    assert Scenario.from_networkx(graph)["topology.gateways"] == [0, 4]


@pytest.mark.parametrize(
    ("graph", "key", "message"),
    [
        (pair(loss=1.5), "edges['gw', 'home'].loss", "found 1.5; expected a probability from 0 to 1"),
        (pair(loss=True), "edges['gw', 'home'].loss", "found True"),
        (pair(loss=0.1, delivery=0.9), "edges['gw', 'home'].loss", "is given beside `delivery`"),
        (pair(rate="fast"), "edges['gw', 'home'].rate", "expected"),
        (pair(rate=-1), "edges['gw', 'home'].rate", "found -1; expected bit/s as a number"),
        (pair(rate="7 Mbit/s"), "edges['gw', 'home'].rate", "expected one of 1 Mbit/s"),
        (pair(mcs=1.5), "edges['gw', 'home'].mcs", "found 1.5; expected a whole number"),
        (pair(signal="loud"), "edges['gw', 'home'].signal", "found 'loud'; expected dBm"),
        (pair(width=20), "edges['gw', 'home'].width", "found 20; expected a text"),
        (networkx.grid_2d_graph(2, 2), "nodes[(0, 0)]", "networkx.convert_node_labels_to_integers"),
        (networkx.MultiGraph([(0, 1)]), "graph", "is a MultiGraph; expected a Graph or DiGraph"),
        (networkx.Graph(), "graph", "has no nodes"),
        (networkx.Graph([(0, 0)]), "edges[0, 0]", "joins a node to itself"),
        (networkx.empty_graph(2), "nodes[0].pos", "is absent, and the graph has no edges"),
        (networkx.path_graph(3), "gateway", "there is no node 'gw'; expected one of 0, 1, 2"),
    ],
)
def test_bad_graphs_are_refused_by_node_edge_and_attribute(graph: Any, key: str, message: str) -> None:
    with pytest.raises(ScenarioError) as e:
        Scenario.from_networkx(graph, gateway="gw")
    assert e.value.key == key and str(e.value).startswith(f"{key}: ") and message in str(e.value), str(e.value)


def test_other_objects_and_places_are_refused() -> None:
    with pytest.raises(fairmesh.SettingError, match="graph: found dict; expected a graph of networkx"):
        Scenario.from_networkx({"nodes": []})
    graph = pair()
    graph.nodes["home"]["pos"] = (1.0, float("nan"))
    with pytest.raises(ScenarioError, match=r"nodes\['home'\].pos: found \(1.0, nan\); expected x and y in metres"):
        Scenario.from_networkx(graph, gateway="gw")
    with pytest.raises(ScenarioError, match="gateway: is absent, and no node has the attribute `gateway`"):
        Scenario.from_networkx(networkx.path_graph(2))
    one_way = networkx.DiGraph([("a", "b"), ("b", "a")])
    one_way.edges["a", "b"]["rate"] = "1 Mbit/s"
    with pytest.raises(ScenarioError, match=r"edges\['a', 'b'\].rate: found '1 Mbit/s'; expected the value of edges\['b'"):
        Scenario.from_networkx(one_way, gateway="a")
