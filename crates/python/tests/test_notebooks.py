"""The notebooks run from top to bottom, and are committed without outputs."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


@pytest.mark.parametrize(("name", "figures"), [("starvation", 5), ("paper-figure", 5), ("own-mechanism", 3)])
def test_a_notebook_runs(name: str, figures: int) -> None:
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    assert all(not c.outputs and c.execution_count is None for c in cells), "expected a notebook without outputs"
    # An exception in a cell is one here. The limit is for a machine that hangs.
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    outputs = [o for c in cells for o in c.outputs]
    assert sum("image/png" in o.get("data", {}) for o in outputs) == figures
    assert not [o.text for o in outputs if o.get("name") == "stderr"]


def test_every_notebook_is_tested() -> None:
    assert {p.stem for p in NOTEBOOKS.glob("*.ipynb")} == {"starvation", "paper-figure", "own-mechanism"}
