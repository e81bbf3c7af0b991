"""The guide: its examples run in the order in which they stand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_guide_runs_as_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    os.symlink(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide"}
    for block in blocks:
        if "from_arrow" in block:
            import pandas

            if not hasattr(pandas.DataFrame, "from_arrow"):
                block = re.sub(r".*from_arrow.*\n", "", block)
        exec(compile(block, "docs/python.md", "exec"), names)
