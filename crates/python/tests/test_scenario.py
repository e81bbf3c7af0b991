"""Scenarios: sources, edits by key, errors."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import fairmesh
from fairmesh import Scenario

TEXT = """
duration = "4 s"
[radio]
rate = "1 Mbit/s"
[topology]
chain = { hops = 2 }
gateway = 0
[[flow]]
from = 2
to = 0
"""

MAP = """{"type": "NetworkGraph", "protocol": "olsr", "version": "1", "metric": "etx",
"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}],
"links": [{"source": "a", "target": "b", "cost": 1.0}, {"source": "b", "target": "c", "cost": 1.2}]}
"""


def test_a_file_and_its_text_are_the_same_scenario(tmp_path: Path) -> None:
    file = tmp_path / "pair.toml"
    file.write_text(TEXT)
    for path in (file, str(file)):
        read = Scenario.from_toml(path)
        assert (read.name, read.duration, read.warmup) == ("pair", 4.0, 0.4)
    text = Scenario.from_toml(TEXT, name="text")
    assert (text.name, text.control) == ("text", "fifo")
    assert text.flows.to_dicts() == [{"flow": "2->0", "from": "2", "to": "0", "hops": 2, "weight": 1.0}]
    assert fairmesh.run(text).runs["fingerprint"] == fairmesh.run(read).runs["fingerprint"]


def test_edits_by_key_have_the_types_of_python() -> None:
    mesh = Scenario.from_toml(TEXT)
    mesh["radio.rate"] = "5.5 Mbit/s"
    mesh["radio.rts"] = True
    mesh["radio.queue"] = {"kind": "fq"}
    mesh["flow.0.traffic"] = {"kind": "cbr", "rate": "100 kbit/s", "packet": "500 B"}
    mesh["topology.chain.hops"] = 3
    assert (mesh["radio.rate"], mesh["radio.rts"]) == ("5.5 Mbit/s", True)
    assert mesh["flow.0.traffic.rate"] == "100 kbit/s"
    assert mesh["topology.chain"] == {"hops": 3}
    assert len(mesh.nodes) == 4 and "radio.rts" in mesh and "radio.power" not in mesh
    with pytest.raises(KeyError, match="radio.power is not set"):
        mesh["radio.power"]
    again = Scenario.from_toml(mesh.to_toml())
    assert fairmesh.run(again).runs["fingerprint"] == fairmesh.run(mesh).runs["fingerprint"]
    assert Scenario.from_dict(mesh.to_dict())["radio.queue"] == mesh["radio.queue"]


def test_changes_that_depend_on_each_other_are_checked_together() -> None:
    mesh = Scenario.from_toml(TEXT)
    with pytest.raises(fairmesh.ScenarioError):
        mesh["flow.0.start"] = "5 s"
    assert "flow.0.start" not in mesh
    later = mesh.with_changes({"flow.0.start": "5 s", "duration": "8 s"})
    assert (later.duration, mesh.duration) == (8.0, 4.0)
    with pytest.raises(fairmesh.SettingError, match="duration: found 5; expected a time"):
        mesh["duration"] = 5


def test_copies_and_pickles_have_the_changes() -> None:
    mesh = Scenario.from_toml(TEXT)
    mesh["radio.rts"] = True
    for other in (copy.copy(mesh), copy.deepcopy(mesh), pickle.loads(pickle.dumps(mesh))):
        other["radio.rate"] = "2 Mbit/s"
        assert (other["radio.rts"], mesh["radio.rate"]) == (True, "1 Mbit/s")


def test_generators() -> None:
    assert len(Scenario.chain(4, spacing="150 m").nodes) == 5
    grid = Scenario.grid(2, 3, gateway=4, flows="down")
    assert [n["gateway"] for n in grid.nodes.to_dicts()] == [0, 0, 0, 0, 1, 0]
    assert {f["from"] for f in grid.flows.to_dicts()} == {"4"}
    places = [Scenario.random(8, width="600 m", seed=s).nodes.to_dicts() for s in (1, 1, 2)]
    assert places[0] == places[1] != places[2]
    with pytest.raises(fairmesh.ScenarioError) as e:
        Scenario.chain(3, gateway=7)
    assert e.value.key == "topology.gateway"


def test_a_map_with_its_settings() -> None:
    mesh = Scenario.from_map(MAP, gateways=["a"], flows="up", flow_count=1, rate="12 Mbit/s", duration="5 s")
    assert (len(mesh.nodes), len(mesh.flows), mesh.duration) == (3, 1, 5.0)
    assert mesh.flows["to"] == ["a"]
    assert mesh.with_changes({"duration": "6 s"}).duration == 6.0
    with pytest.raises(fairmesh.FileError, match="is a map; expected a TOML scenario"):
        mesh["radio.rts"] = True


@pytest.mark.parametrize(
    ("make", "kind", "parts"),
    [
        (lambda: Scenario.from_toml("nowhere.toml"), fairmesh.FileError, ("nowhere.toml", None, None, "a scenario file")),
        (
            lambda: Scenario.from_toml('duration = "4"\n'),
            fairmesh.ScenarioError,
            ("scenario", 1, "duration", "a time"),
        ),
        (
            lambda: Scenario.from_toml('duration = "4 s"\ncolour = 1\n'),
            fairmesh.ScenarioError,
            ("scenario", 2, "colour", "one of "),
        ),
        (lambda: Scenario.from_toml(MAP), fairmesh.FileError, ("scenario", None, None, "a scenario in TOML")),
        (lambda: Scenario.from_map(TEXT), fairmesh.FileError, ("map", None, None, "a map")),
        (lambda: Scenario.from_map(MAP, rate="fast"), fairmesh.SettingError, (None, None, "rate", "a rate")),
        (lambda: Scenario.from_map(MAP, flows="left"), fairmesh.SettingError, (None, None, "flows", "up, down or both")),
        (lambda: Scenario.from_dict({"duration": None}), fairmesh.SettingError, (None, None, "changes", "a number")),
        (
            lambda: Scenario.chain(2).with_changes({"radio.rate": "3 Mbit/s"}),
            fairmesh.ScenarioError,
            ("chain", None, "radio.rate", "one of 1 Mbit/s"),
        ),
    ],
)
def test_errors_have_their_parts_apart(make, kind, parts) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind) as e:
        make()
    error = e.value
    file, line, key, expected = parts
    assert (error.file, error.line, error.key) == (file, line, key), str(error)
    assert error.expected.startswith(expected) and "\n" not in str(error), str(error)
    assert isinstance(error, fairmesh.FairmeshError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.key) == (str(error), key)
