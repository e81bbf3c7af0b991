"""Interruption of mechanisms that do not return."""

from __future__ import annotations

from collections.abc import Iterable


def interrupt(threads: Iterable[int]) -> None:
    """Raises KeyboardInterrupt in threads that execute code of mechanisms."""
    import ctypes

    for thread in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
