#!/usr/bin/env bash
# Checks the language of comments, pages and commit subjects: scripts/language.py, its unit tests, and spelling
# by codespell in a virtual environment of its own.
# PYTHON: the interpreter (python3), 3.11 or later.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
python=${PYTHON:-python3}
codespell=2.4.3

skip() {
    echo "language: $1" >&2
    if [ -n "${FAIRMESH_NO_SKIP:-}" ]; then exit 1; fi
    echo "language: SKIPPED" >&2
    exit 0
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "expected Python 3.11 or later as $python"
PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest discover --quiet --start-directory scripts/language
"$python" scripts/language.py

venv=$target/language/$codespell
if [ ! -e "$venv/installed" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || skip "a virtual environment cannot be made; expected python3-venv"
    timeout 120 "$venv/bin/pip" install --quiet --disable-pip-version-check "codespell==$codespell" \
        || skip "codespell $codespell cannot be installed"
    touch "$venv/installed"
fi
"$python" scripts/language.py --files | xargs -0 "$venv/bin/codespell" --ignore-words-list "$("$python" scripts/language.py --words)"
