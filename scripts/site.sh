#!/usr/bin/env bash
# Builds docs/ as a site in target/site, with MkDocs in a virtual environment of its own.
#   site.sh         the site
#   site.sh check   also checks it (scripts/site/check.py) and the words of the pages (scripts/site/words.py)
# Both check the sources first (scripts/site/pages.py).
# PYTHON: the interpreter (python3), 3.11 or later. PROGRAMS: folder of the programs that generate pages (target/release);
# PARAMETERS, PAGES: the examples that print the parameters of controls, and write events and metrics of the daemons
# (target/debug/examples/parameters and pages).
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
python=${PYTHON:-python3}

skip() {
    echo "site: $1" >&2
    if [ -n "${FAIRMESH_NO_SKIP:-}" ] || [ "${2:-}" != check ]; then exit 1; fi
    echo "site: SKIPPED" >&2
    exit 0
}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || skip "no $python; expected Python 3.11 or later" "$@"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$python is $version; expected 3.11 or later" "$@"
# Problems of the sources have file and line; MkDocs names the file only.
PYTHONDONTWRITEBYTECODE=1 "$python" scripts/site/pages.py
venv=$target/site-python/$version
requirements=scripts/site/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || skip "no virtual environment can be made; install python3-venv" "$@"
    timeout 900 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" \
        || skip "the packages of $requirements cannot be installed" "$@"
    cp "$requirements" "$venv/installed.txt"
fi

# Pages from records and code (docs/generated.md), seconds.
programs=${PROGRAMS:-$target/release}
parameters=${PARAMETERS:-$target/debug/examples/parameters}
pages=${PAGES:-$target/debug/examples/pages}
for program in "$programs/fairmesh" "$programs/fairmesh-experiments" "$parameters" "$pages"; do
    [ -x "$program" ] || { echo "site: $program: no such program; run make site, which builds it" >&2; exit 1; }
done
export FAIRMESH_PAGES=$target/pages
rm -rf "$FAIRMESH_PAGES"
mkdir -p "$FAIRMESH_PAGES/controls"
"$programs/fairmesh-experiments" reproduce page --from reproductions --out "$FAIRMESH_PAGES/reproductions.md" > /dev/null
"$parameters" > "$FAIRMESH_PAGES/controls/parameters.md"
"$pages" "$FAIRMESH_PAGES"
"$python" validation/chain/page.py "$FAIRMESH_PAGES"

if [ "${1:-}" = check ]; then
    "$python" scripts/site/starvation.py "$programs/fairmesh" --check
    "$python" scripts/site/routers.py --check
fi

# A warning about a link, an anchor or the navigation ends the build. --quiet would hide warnings from --strict.
NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 "$venv/bin/mkdocs" build --strict --clean --site-dir "$target/site"
if [ "${1:-}" = check ]; then
    PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" scripts/site/check.py "$target/site" "$FAIRMESH_PAGES"
    PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" scripts/site/words.py
else
    echo "site: $target/site/index.html"
fi
