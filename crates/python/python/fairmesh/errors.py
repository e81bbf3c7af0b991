"""Exceptions of the package.

Each has one sentence that names the file, key or setting and the accepted values.
"""

from __future__ import annotations


class FairmeshError(Exception):
    """Base of all exceptions of this package."""

    file: str | None
    """File or folder."""
    line: int | None
    """Line in the file, from 1."""
    key: str | None
    """Key of the file, or name of the setting."""
    expected: str | None
    """Accepted values."""

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
        expected: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.key = key
        self.expected = expected


class ScenarioError(FairmeshError, ValueError):
    """A scenario has an invalid key or value."""


class SettingError(FairmeshError, ValueError):
    """An argument has an invalid value."""


class FileError(FairmeshError):
    """A file or folder is invalid, or cannot be read or written."""


class StoreError(FairmeshError):
    """A store of results is damaged, or has results of another revision."""


class RunError(FairmeshError, RuntimeError):
    """The simulator or a model rejects a scenario."""


class MechanismError(FairmeshError):
    """A mechanism returned a value that is neither an action nor a plan."""
