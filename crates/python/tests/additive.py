"""A mechanism of thirty lines: the one of examples/own-mechanism, in Python."""

from __future__ import annotations

from collections.abc import Iterable

from fairmesh import Mechanism, Needs, Option
from fairmesh.mechanism import (
    Action,
    Because,
    ClassPlan,
    Deadline,
    Event,
    Flow,
    FlowCounters,
    Plan,
    SetRate,
    Setting,
)


class Additive(Mechanism):
    """All limits rise by a step per epoch and are halved when a flow starves."""

    name = "additive"
    needs = Needs(at=["gateway"], events=["flow_counters"], abilities=["limit_transit", "flow_classes"])
    options = {
        "step": Option(10.0, 0.1, 1e5, "kbit/s", "increase of each limit per epoch"),
        "epoch": Option(2.0, 0.5, 600.0, "s", "time between decisions"),
    }

    def __init__(self, options: dict[str, float], setting: Setting) -> None:
        self.step, self.epoch, self.limit = options["step"] * 1e3, options["epoch"], 50e3
        self.ids = [f.id for f in setting.flows]
        self.bytes = dict.fromkeys(self.ids, 0)
        self.before = dict(self.bytes)

    def plan(self) -> Plan:
        return Plan("transit", [ClassPlan(Flow(i), rate=self.limit, packets=10) for i in self.ids])

    def on(self, now: float, event: Event) -> Iterable[Action] | None:
        match event:
            case FlowCounters(flow, count, _):
                self.bytes[flow] = count
            case Deadline():
                actions = self.decide() if now > 0 else None
                self.before = dict(self.bytes)
                self.deadline = now + self.epoch
                return actions
        return None

    def decide(self) -> list[Action]:
        used = {i: (self.bytes[i] - self.before[i]) * 8 / self.epoch / self.limit for i in self.ids}
        starved = [i for i, part in used.items() if 0.02 <= part < 0.5]
        self.limit = max(self.limit / 2 if starved else self.limit + self.step, self.step)
        why = Because("additive.decrease", "flow {} starves", (Flow(starved[0]),)) if starved else Because("additive.increase", "no flow starves: {} bit/s each", (self.limit,))
        return [why, *(SetRate(Flow(i), self.limit) for i in self.ids)]
