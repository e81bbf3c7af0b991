"""Small scenarios that run in a fraction of a second."""

from __future__ import annotations

import pytest

import fairmesh


@pytest.fixture
def chain() -> fairmesh.Scenario:
    """Three hops, an upload from each node, 4 s."""
    return fairmesh.Scenario.chain(3, duration="4 s")


@pytest.fixture
def results(chain: fairmesh.Scenario) -> fairmesh.Results:
    """Two controls, two seeds."""
    return fairmesh.compare(chain, ["fifo", "source"], seeds=2, sample="100 ms", progress=False)
