"""Work for the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from fairmesh._progress import Report

if TYPE_CHECKING:
    from distributed import Client

# Tasks in the cluster per thread: enough that no worker waits, few enough that memory stays flat.
AHEAD = 3

# Duration of a task. Shorter runs share a task: the scheduler takes some ms for each.
TASK_SECONDS = 1.0


def spread(
    client: Client,
    name: str,
    items: Sequence[int],
    call: Callable[[Sequence[int]], tuple[Any, ...]],
    put: Callable[[int, str], None],
    report: Report | None,
) -> None:
    """Calls a function for all items on workers, and `put` with each result as it arrives.

    call: a function that returns a list of results, and its arguments, for some of the items.
    """
    from distributed import as_completed

    begun = done = 0
    seconds = 0.0

    def slots() -> int:
        threads: int = sum(client.nthreads().values())
        return AHEAD * max(1, threads)

    def size() -> int:
        """Runs in the next task: those of a second, but the last ones are divided among all workers."""
        fill = int(TASK_SECONDS * done / seconds) if seconds else 1
        return max(1, min(fill, ceil((len(items) - begun) / slots())))

    def submit() -> Any:
        nonlocal begun
        places = items[begun : begun + size()]
        begun += len(places)
        # A key of its own: Dask would otherwise take equal jobs of earlier calls, failed ones too.
        future: Any = client.submit(timed, *call(places), key=f"fairmesh-{name}-{places[0]}", pure=False)
        future.fairmesh_places = places
        return future

    futures: Any = as_completed([submit() for _ in range(min(slots(), len(items)))])
    try:
        for future in futures:
            results, took = future.result()
            seconds += took
            for place, result in zip(future.fairmesh_places, results, strict=True):
                put(place, result)
                done += 1
                if report is not None:
                    report(done, len(items))
            # A worker that joined late gets its share.
            while begun < len(items) and futures.count() < slots():
                futures.add(submit())
    finally:
        client.cancel(list(futures.futures))


def timed(function: Callable[..., list[str]], *arguments: Any) -> tuple[list[str], float]:
    """Calls a function; returns its results and its duration in seconds. For workers."""
    start = time.perf_counter()
    return function(*arguments), time.perf_counter() - start
