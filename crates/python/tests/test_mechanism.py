"""Mechanisms in Python: runs, options, stores, failures."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from additive import Additive

import fairmesh
from fairmesh import Mechanism, MechanismError, Needs, Scenario, SettingError
from fairmesh import mechanism as m


@pytest.fixture
def mesh() -> Scenario:
    fairmesh.register(Additive)
    return Scenario.chain(3, duration="20 s").with_changes({"wired.hosts": ["internet"], "traffic.host": "internet"})


def test_it_is_compared_with_shipped_mechanisms(mesh: Scenario) -> None:
    results = fairmesh.compare(mesh, ["fifo", "additive", "pfrc"], seeds=2)
    assert results.controls == ["fifo", "additive", "pfrc"]
    codes = [d["code"] for d in results.decisions.to_dicts() if d["control"] == "additive"]
    assert len(codes) >= 16 and set(codes) <= {"additive.increase", "additive.decrease"}
    prints = results.runs["fingerprint"]
    assert prints[:2] != prints[2:4] and results.runs["sum_goodput_bps"][2] > 0
    again = fairmesh.compare(mesh, ["additive"], seeds=2, threads=1)
    assert again.runs["fingerprint"] == prints[2:4]
    reason = next(d["reason"] for d in results.decisions.to_dicts() if d["code"] == "additive.increase")
    assert reason == "no flow starves: 60000 bit/s each"
    assert "additive" in fairmesh.controls()["control"]


def test_a_scenario_names_it_with_its_options(mesh: Scenario) -> None:
    named = mesh.with_changes({"control.use": "additive", "control.step": 40})
    assert named.control == "additive"
    reasons = fairmesh.run(named).decisions["reason"]
    assert reasons[0] == "no flow starves: 90000 bit/s each"
    assert fairmesh.run(mesh, "additive", options={"step": 40}).decisions["reason"] == reasons
    with pytest.raises(fairmesh.ScenarioError) as e:
        mesh.with_changes({"control.use": "additive", "control.step": 0})
    assert e.value.key == "control.step"


def test_another_text_of_the_class_has_results_of_its_own(mesh: Scenario, tmp_path: Path) -> None:
    calls: list[int] = []

    class Counting(Additive):
        name = "counting"

        def __init__(self, options: dict[str, float], setting: m.Setting) -> None:
            super().__init__(options, setting)
            calls.append(setting.node)

    fairmesh.register(Counting)
    fairmesh.run(mesh, "counting", store=tmp_path / "runs")
    fairmesh.run(mesh, "counting", store=tmp_path / "runs")
    assert len(calls) == 1, "the second run is taken from the store"
    Counting.revision = "2"
    fairmesh.register(Counting)
    fairmesh.run(mesh, "counting", store=tmp_path / "runs")
    assert len(calls) == 2


def make(body: Any, **attributes: Any) -> type[Mechanism]:
    """Registers a mechanism `probe` with a function of itself, time and event as its `on`."""
    needs = Needs(events=["flow_counters"], abilities=["limit_transit", "flow_classes", "mark"])
    space = {"name": "probe", "needs": needs, "revision": "1", "on": body, **attributes}
    probe = type("Probe", (Mechanism,), space)
    return fairmesh.register(probe)


def test_an_exception_ends_the_runs_with_its_traceback(mesh: Scenario) -> None:
    def on(self: Mechanism, now: float, event: m.Event) -> None:
        self.deadline = now + 1
        if now > 3:
            raise LookupError("no such flow")

    make(on)
    with pytest.raises(LookupError, match="no such flow") as e:
        fairmesh.compare(mesh, ["fifo", "probe"], seeds=4)
    text = "".join(traceback.format_exception(e.value))
    assert "test_mechanism.py" in text and "raise LookupError" in text
    if sys.version_info >= (3, 11):
        assert "in mechanism probe, at " in text


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (5, "probe.on returned 5; expected None or a list of actions"),
        ([3], "probe.on returned 3; expected None or a list of actions"),
        ([m.SetRate(m.Flow(0), float("nan"))], "expected a rate of 0 bit/s or more"),
        ([m.SetRate("some", 1e5)], 'expected "all"'),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_named(mesh: Scenario, answer: object, problem: str) -> None:
    def on(self: Mechanism, now: float, event: m.Event) -> object:
        self.deadline = now + 1
        return answer

    make(on)
    with pytest.raises(MechanismError, match=problem.replace("(", r"\(")):
        fairmesh.run(mesh, "probe")
    with pytest.raises(MechanismError, match="probe.deadline: found 'soon'; expected seconds or None"):
        make(lambda self, now, event: setattr(self, "deadline", "soon"))
        fairmesh.run(mesh, "probe")


def test_a_breach_of_the_contract_is_contained(mesh: Scenario) -> None:
    def on(self: Mechanism, now: float, event: m.Event) -> Iterable[m.Action]:
        self.deadline = now + 1
        return [m.Because("probe.try", "tries"), m.SetRate(m.Flow(99), 1e5), m.Drop("all", 0.5)]

    make(on)
    codes = set(fairmesh.run(mesh, "probe").decisions["code"])
    assert {"contract.class", "contract.ability"} <= codes


def test_an_endless_mechanism_is_interrupted() -> None:
    code = """
import ctypes, os, signal, fairmesh
# A test that is killed takes this process with it: prctl(PR_SET_PDEATHSIG, SIGKILL).
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
class Endless(fairmesh.Mechanism):
    name, revision, needs = "endless", "1", fairmesh.Needs()
    def on(self, now, event):
        os.write(1, bytes([105, 10]))
        while True:
            pass
fairmesh.register(Endless)
try:
    fairmesh.compare(fairmesh.Scenario.chain(2, duration="5 s"), ["endless"], seeds=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "i\n"
    process.send_signal(2)
    out, _ = process.communicate(timeout=120)
    assert out.splitlines()[-1] == "interrupted" and process.returncode == 0


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"name": "pfrc"}, "already registered"),
        ({"name": "a b"}, "a b"),
        ({"needs": Needs(events=["wind"])}, "needs.events: found \"wind\"; expected one of counters, flow_counters"),
        ({"needs": Needs(at=["roof"])}, "needs.at: found \"roof\"; expected one of gateway, "),
        ({"needs": None}, "Probe.needs is missing; expected Needs"),
        ({"options": {"use": fairmesh.Option(1, 0, 2)}}, "use"),
        ({"options": {"step": fairmesh.Option(5, 0, 2)}}, "step"),
        ({"revision": ""}, "expected a class in a file or notebook cell, or `revision`"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused(attributes: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingError) as e:
        make(lambda self, now, event: None, **attributes)
    assert problem in str(e.value) and e.value.key == "mechanism"


def test_an_exception_of_the_constructor_is_raised(mesh: Scenario) -> None:
    class Broken(Additive):
        name = "broken"

        def __init__(self, options: dict[str, float], setting: m.Setting) -> None:
            raise LookupError(f"node {setting.node}")

    fairmesh.register(Broken)
    with pytest.raises(LookupError, match="node 0"):
        fairmesh.run(mesh, "broken")


def test_every_event_arrives_as_its_class() -> None:
    seen: dict[str, m.Event] = {}

    class Listener(Mechanism):
        """Listens to everything at every node."""

        name = "listener"
        needs = Needs(
            at=["every_node"],
            events=["stations", "channel", "queue_samples", "queue_changes", "sent", "received", "overheard",
                    "messages", "feedback", "flows"],
            abilities=["send"],
        )

        def on(self, now: float, event: m.Event) -> Iterable[m.Action] | None:
            seen.setdefault(type(event).__name__, event)
            if isinstance(event, m.Deadline):
                self.deadline = now + 1
                return [m.Send(None, b"hello")]
            return None

    fairmesh.register(Listener)
    fairmesh.run(Scenario.chain(3, duration="5 s"), "listener")
    expected = {"Deadline", "Station", "Channel", "QueueLength", "Sent", "Received", "Overheard", "Message", "Feedback"}
    assert expected <= set(seen), expected - set(seen)
    assert isinstance(seen["Message"], m.Message) and seen["Message"].body == b"hello"
    assert isinstance(seen["Sent"], m.Sent) and seen["Sent"].airtime > 0
    assert {type(e) for e in seen.values()} <= set(get_args(m.Event))


def test_a_class_of_a_notebook_cell_has_a_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    import linecache

    from fairmesh import mechanism

    def revision(step: int) -> str:
        text = f"class Cell(Mechanism):\n    name = 'cell'\n    step = {step}\n\n    def on(self, now, event):\n        return None\n"
        name = f"<cell {step}>"
        # A notebook's module has no file; its cells are in the cache of lines.
        monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
        names = {"Mechanism": fairmesh.Mechanism, "__name__": "__main__"}
        exec(compile(text, name, "exec"), names)
        cell: Any = names["Cell"]
        return mechanism._revision(cell)

    assert revision(1) == revision(1) != revision(2)
    empty = type("Empty", (fairmesh.Mechanism,), {})
    with pytest.raises(fairmesh.SettingError, match="its source cannot be read"):
        mechanism._revision(empty)
