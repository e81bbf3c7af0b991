"""The guide: its examples run in the order of the page."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("page", "least"), [("python.md", 7), ("exchange.md", 2)])
def test_a_page_runs_as_printed(page: str, least: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= least
    os.symlink(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide"}
    exec("import matplotlib; matplotlib.use('agg')", names)
    for block in blocks:
        if "from_arrow" in block:
            import pandas

            if not hasattr(pandas.DataFrame, "from_arrow"):
                block = re.sub(r".*from_arrow.*\n", "", block)
        exec(compile(block, f"docs/{page}", "exec"), names)


def test_the_lines_of_the_front_page_draw_its_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) == 7 and "docs/img/python.png" in (ROOT / "README.md").read_text()
    os.symlink(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    exec("import matplotlib; matplotlib.use('agg')", {})
    exec(compile(block, "README.md", "exec"), {"__name__": "front"})
    assert (tmp_path / "goodput.png").stat().st_size > 10_000
