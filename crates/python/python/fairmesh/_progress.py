"""Progress of long calls, with tqdm if it is installed and the output is interactive."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairmesh.errors import SettingError

Report = Callable[[int, int], object]
Progress = bool | Report | None


@contextmanager
def reporter(progress: Progress, what: str) -> Iterator[Report | None]:
    """Yields the function that receives the completed and the total number of runs.

    A total of 0 is unknown. True requests a bar of tqdm. None requests one if tqdm is installed and the output is a
    terminal or a notebook.
    """
    if progress is None:
        progress = _watched() and importlib.util.find_spec("tqdm") is not None
    if progress is False:
        yield None
        return
    if progress is not True:
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        raise SettingError(
            "progress: tqdm is not installed; expected False, a function, or `pip install tqdm`",
            key="progress",
            expected="False, a function, or `pip install tqdm`",
        ) from None
    with tqdm(desc=what, unit="run", leave=False) as bar:

        def report(done: int, total: int) -> None:
            bar.total = total or None
            bar.update(done - bar.n)

        yield report


def _watched() -> bool:
    # The shell of a notebook has a kernel. Other programs may import ipykernel, too.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or bool(sys.stderr and sys.stderr.isatty())
