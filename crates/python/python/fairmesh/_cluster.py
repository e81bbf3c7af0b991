"""Work for the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from fairmesh._progress import Report

if TYPE_CHECKING:
    from distributed import Client

# Jobs in the cluster per thread: enough that no worker waits, few enough that memory stays flat.
AHEAD = 3


def spread(
    client: Client,
    name: str,
    items: Sequence[int],
    call: Callable[[int], tuple[Any, ...]],
    put: Callable[[int, str], None],
    report: Report | None,
) -> None:
    """Calls a function of each item on a worker, and `put` with each result as it arrives.

    call: function and arguments for an item.
    """
    from distributed import as_completed

    waiting_items = iter(items)
    done = 0

    def submit(item: int) -> Any:
        function, *arguments = call(item)
        # A key of its own: Dask would otherwise take equal jobs of earlier calls, failed ones too.
        future: Any = client.submit(function, *arguments, key=f"fairmesh-{name}-{item}", pure=False)
        future.fairmesh_item = item
        return future

    def slots() -> int:
        threads: int = sum(client.nthreads().values())
        return AHEAD * max(1, threads)

    futures: Any = as_completed([submit(i) for i in islice(waiting_items, slots())])
    try:
        for future in futures:
            put(future.fairmesh_item, future.result())
            done += 1
            if report is not None:
                report(done, len(items))
            # A worker that joined late gets its share.
            for item in islice(waiting_items, max(1, slots() - futures.count())):
                futures.add(submit(item))
    finally:
        client.cancel(list(futures.futures))
