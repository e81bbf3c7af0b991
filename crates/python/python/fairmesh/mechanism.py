"""Fairness mechanisms written in Python.

A mechanism is a class with `name`, `needs`, `options` and `on(now, event)`. It runs in the simulator like a shipped
one: at each node that its needs name there is one object, which receives events and returns actions. It sees only
quantities that a Linux router can measure, and has no clock: `now` and all times are seconds of simulated time.
"""

from __future__ import annotations

import inspect
import linecache
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from fairmesh import _fairmesh
from fairmesh.errors import SettingError


class Flow(NamedTuple):
    """The data of a flow, as a class of traffic."""

    id: int


class Link(NamedTuple):
    """All packets to a neighbour, as a class of traffic."""

    node: int


Target = Flow | Link | Literal["all"]
"""A class of traffic: of a flow, to a neighbour, or all at the plan's point."""


@dataclass(frozen=True)
class Needs:
    """Requirements of a mechanism, by the names of docs/control.md in lower case."""

    at: Sequence[str] = ("gateway",)
    """Kinds of nodes at which it runs: gateway, gateway_neighbours, sources, access_points, agents, every_node."""
    events: Sequence[str] = ()
    """Events that it receives, such as flow_counters, channel, sent, flows."""
    abilities: Sequence[str] = ()
    """Abilities that it uses, such as limit_transit and flow_classes."""
    knowledge: Sequence[str] = ()
    """Facts that it requires at the start, such as link_rates, fair_rates, hops."""
    header_bytes: int = 0
    """Bytes that its header fields add to every packet."""


@dataclass(frozen=True)
class Option:
    """A number of a mechanism that scenarios and calls may change."""

    default: float
    min: float
    max: float
    unit: str = ""
    about: str = ""
    whole: bool = False
    """True if only whole numbers are allowed."""


class FlowInfo(NamedTuple):
    """A flow that crosses the node."""

    id: int
    weight: float
    place: str
    """source, forwarder or sink."""
    next_hop: int | None
    payload: int
    """Application bytes of a full packet."""
    packet: int
    """IP bytes of a full packet."""
    fair: float | None
    """Analytic fair rate of application data, bit/s."""
    hops: int | None


class Neighbour(NamedTuple):
    """A neighbour of the node."""

    node: int
    rate: float
    """Nominal rate of the link, bit/s."""
    capacity: float
    """Throughput of a lone saturated sender across the link, in IP bytes, bit/s."""


class Setting(NamedTuple):
    """Facts about the node at the start."""

    node: int
    gateway: bool
    hops: int | None
    """Hops to the nearest gateway."""
    gateways: int
    """Number of gateways of the mesh."""
    flows: list[FlowInfo]
    neighbours: list[Neighbour]
    random: random.Random
    """Source of randomness: equal for equal scenario, seed and node."""


class ClassPlan(NamedTuple):
    """A queue and a limit for a class of traffic."""

    target: Target
    rate: float | None = None
    """Limit of IP bytes at the start, bit/s."""
    airtime: float | None = None
    """Limit at the start as a fraction of the airtime."""
    burst: int = 1500
    """Bytes that may leave back to back."""
    leaf: str = "drop-tail"
    """drop-tail, fair, red, red-ecn or fred."""
    packets: int = 50
    """Size of the queue."""


class Plan(NamedTuple):
    """Classes that the node builds before the start."""

    point: str
    """local (flows sourced here), transit (flows that cross the node) or interface (the radio's queue)."""
    classes: Sequence[ClassPlan] = ()
    template: ClassPlan | None = None
    """Form of classes that actions name before they exist."""


class Deadline(NamedTuple):
    """The time of `deadline` was reached; all samples precede it."""


DEADLINE = Deadline()


class Counters(NamedTuple):
    """Cumulative counters of a class of the plan."""

    target: Target
    bytes: int
    packets: int
    drops: int
    overlimits: int
    queued_packets: int
    queued_bytes: int


class FlowCounters(NamedTuple):
    """Cumulative counters of a flow's data through this node, in IP bytes."""

    flow: int
    bytes: int
    packets: int


class FlowLink(NamedTuple):
    """Cumulative counters of a flow on one link out of or into this node, in IP bytes."""

    from_node: int
    to_node: int
    flow: int
    ack: bool
    bytes: int
    packets: int


class PathSigns(NamedTuple):
    """Signs of a flow's path through the mesh; times in s."""

    flow: int
    awaited: int | None
    repeated: int
    round_trip: float | None
    base_round_trip: float | None
    round_trips: int
    oldest: float | None


class Station(NamedTuple):
    """Cumulative counters of a neighbour; airtimes in s, rate in bit/s."""

    node: int
    tx_bytes: int
    tx_packets: int
    tx_retries: int
    tx_failed: int
    tx_airtime: float
    tx_rate: float
    rx_bytes: int
    rx_packets: int
    rx_airtime: float


class Channel(NamedTuple):
    """Cumulative use of the channel, s."""

    active: float
    busy: float
    receive: float
    transmit: float


class QueueLength(NamedTuple):
    """Length of a transmit queue."""

    target: Target
    packets: int
    bytes: int


class Sent(NamedTuple):
    """Outcome of a transmitted frame; airtime of all attempts in s, rate of the last in bit/s."""

    to: int | None
    flow: int | None
    ack: bool
    bytes: int
    airtime: float
    attempts: int
    rate: float
    delivered: bool
    ack_bits: int | None


class Received(NamedTuple):
    """A data packet for this node."""

    sender: int
    receiver: int
    flow: int
    ack: bool
    bytes: int
    header: tuple[int, ...]


class Overheard(NamedTuple):
    """A data packet for another node."""

    sender: int
    receiver: int
    flow: int
    ack: bool
    bytes: int
    header: tuple[int, ...]


class Message(NamedTuple):
    """A control message of another node."""

    sender: int
    body: bytes


class Restarted(NamedTuple):
    """Another node has restarted."""

    node: int


class Feedback(NamedTuple):
    """An acknowledgement at the source of a flow; a round trip of 0 was not measured."""

    flow: int
    round_trip: float
    acked: int
    lost: int
    marked: bool
    header: tuple[int, ...]


class RoundTrip(NamedTuple):
    """Round trip of a passing flow beyond this node, s."""

    flow: int
    round_trip: float


class FlowSeen(NamedTuple):
    """A flow has begun to cross this node."""

    flow: int
    weight: float
    payload: int
    packet: int
    fair: float | None


class FlowGone(NamedTuple):
    """A flow has become idle or ended."""

    flow: int


class Allocation(NamedTuple):
    """Analytic fair rate of a flow, bit/s of application data."""

    flow: int
    rate: float


Event = (
    Deadline
    | Counters
    | FlowCounters
    | FlowLink
    | PathSigns
    | Station
    | Channel
    | QueueLength
    | Sent
    | Received
    | Overheard
    | Message
    | Restarted
    | Feedback
    | RoundTrip
    | FlowSeen
    | FlowGone
    | Allocation
)


class SetRate(NamedTuple):
    """Limits a class to a rate of IP bytes, bit/s; None lifts the limit."""

    target: Target
    rate: float | None


class SetAirtime(NamedTuple):
    """Limits a class to a fraction of the airtime."""

    target: Target
    share: float


class Remove(NamedTuple):
    """Removes a class that was built from the template."""

    target: Target


class Mark(NamedTuple):
    """Sets CE in ECN-capable packets of a class with this probability."""

    target: Target
    probability: float
    even: bool = False
    """True to spread marks evenly over packets."""


class Drop(NamedTuple):
    """Drops packets of a class with this probability."""

    target: Target
    probability: float


class Pace(NamedTuple):
    """Sets the minimum spacing of new data of a local TCP flow, s; None removes it."""

    flow: int
    interval: float | None
    window: bool = True
    """False if the congestion window does not apply."""


class Send(NamedTuple):
    """Sends a control message to a neighbour, or to all neighbours for None."""

    to: int | None
    body: bytes


class Route(NamedTuple):
    """Sends a control message to a node over the routes of the mesh."""

    to: int
    body: bytes


class Annotate(NamedTuple):
    """Writes a header field into every packet of a class that leaves this node."""

    target: Target
    slot: int
    merge: str
    """set, max, min or or."""
    value: int


class AckBits(NamedTuple):
    """Carries these bits in later MAC acknowledgements of this node."""

    bits: int


class Because(NamedTuple):
    """The reason for the actions after it, recorded with them.

    The sentence has a {} for each value.
    """

    code: str
    sentence: str
    values: tuple[float | Target, ...] = ()


Action = (
    SetRate | SetAirtime | Remove | Mark | Drop | Pace | Send | Route | Annotate | AckBits | Because
)


class Mechanism:
    """Base class of mechanisms. A subclass sets `name` and `needs`, and defines `on`."""

    name: ClassVar[str]
    """Name in scenarios, calls and results."""
    about: ClassVar[str] = ""
    """Purpose, in a line; the first line of the class's documentation by default."""
    needs: ClassVar[Needs]
    options: ClassVar[Mapping[str, Option]] = {}
    revision: ClassVar[str] = ""
    """Text that changes whenever the mechanism decides differently, part of the key of stored results; a hash of the
    class's source by default. Set it if the class calls functions outside of it that may change."""

    deadline: float | None = 0.0
    """Time of the next Deadline event, s; None for none. It is read after each call of `on`."""

    def __init__(self, options: dict[str, float], setting: Setting) -> None:
        """options: values of the declared options. setting: facts about the node."""

    def plan(self) -> Plan | None:
        """Returns the classes that the node builds before the start; none by default."""
        return None

    def on(self, now: float, event: Event) -> Iterable[Action] | None:
        """Handles an event and returns actions. After Deadline, `deadline` must be later than `now`."""
        raise NotImplementedError


def register(mechanism: type[Mechanism]) -> type[Mechanism]:
    """Registers a mechanism by its name; usable as a decorator.

    It replaces a mechanism of Python with the same name.
    """
    if not (isinstance(mechanism, type) and issubclass(mechanism, Mechanism)):
        raise _wrong(f"found {mechanism!r}; expected a subclass of fairmesh.Mechanism")
    for attribute, kind in (("name", str), ("needs", Needs), ("options", Mapping)):
        if not isinstance(getattr(mechanism, attribute, None), kind):
            raise _wrong(f"{mechanism.__name__}.{attribute} is missing; expected {kind.__name__}")
    if not mechanism.about:
        mechanism.about = (inspect.getdoc(mechanism) or mechanism.name).splitlines()[0].rstrip(".")
    mechanism.options = dict(mechanism.options)
    _fairmesh.register(mechanism, mechanism.revision or _revision(mechanism))
    return mechanism


def _revision(mechanism: type[Mechanism]) -> str:
    import hashlib

    try:
        source = "".join(_source(c) for c in mechanism.__mro__ if issubclass(c, Mechanism) and c is not Mechanism)
    except (OSError, TypeError):
        raise _wrong(
            f"{mechanism.__name__}: its source cannot be read; expected a class in a file or notebook cell, or `revision`"
        ) from None
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _source(mechanism: type[Mechanism]) -> str:
    """Source of a class; `inspect` does not find classes in cells of a notebook."""
    codes = [m.__code__ for m in vars(mechanism).values() if inspect.isfunction(m)]
    file = getattr(sys.modules.get(mechanism.__module__), "__file__", None)
    if not codes or file == codes[0].co_filename:
        return inspect.getsource(mechanism)
    import ast

    text = "".join(linecache.getlines(codes[0].co_filename))
    try:
        classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    except SyntaxError:
        classes = []
    for node in classes:
        if node.name == mechanism.__name__ and node.lineno <= codes[0].co_firstlineno <= (node.end_lineno or 0):
            return ast.get_source_segment(text, node) or ""
    return inspect.getsource(mechanism)


def _wrong(problem: str) -> SettingError:
    expected = problem.rpartition("expected ")[2]
    return SettingError(f"mechanism: {problem}", key="mechanism", expected=expected)
