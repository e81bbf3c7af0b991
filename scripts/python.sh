#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into a virtual environment and tests it there: pytest,
# mypy --strict and stubtest. The build shares the artifacts of the release profile.
#   python.sh           all of that
#   python.sh wheel     only the wheel, in target/wheels
#   python.sh release [TARGET...]   the wheel, wheels for the targets (with zig as linker), and the source distribution
# PYTHON: the interpreter (python3), 3.10 or later.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
python=${PYTHON:-python3}

skip() {
    echo "python: $1" >&2
    if [ -n "${FAIRMESH_NO_SKIP:-}" ] || [ "${2:-}" = wheel ] || [ "${2:-}" = release ]; then exit 1; fi
    echo "python: SKIPPED" >&2
    exit 0
}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || skip "no $python; expected Python 3.10 or later" "$@"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$python is $version; expected 3.10 or later" "$@"
venv=$target/python/$version
requirements=crates/python/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || skip "no virtual environment can be made; expected python3-venv" "$@"
    timeout 900 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" \
        || skip "the packages of $requirements cannot be installed" "$@"
    cp "$requirements" "$venv/installed.txt"
fi

rm -rf "$target/wheels"
VIRTUAL_ENV=$PWD/$venv "$venv/bin/maturin" build --quiet --release --locked --out "$target/wheels"
if [ "${1:-}" = release ]; then
    for other in "${@:2}"; do
        if command -v rustup >/dev/null; then
            rustup target list --installed | grep -x "$other" >/dev/null || timeout 600 rustup target add "$other" >&2
        fi
        zig=$(scripts/zig.sh)
        CARGO_ZIGBUILD_ZIG_PATH=$zig VIRTUAL_ENV=$PWD/$venv "$venv/bin/maturin" build --quiet --release --locked --zig \
            --target "$other" --out "$target/wheels"
    done
    "$venv/bin/maturin" sdist --out "$target/wheels" >&2
fi
ls -l "$target"/wheels/*
case ${1:-} in wheel | release) exit 0 ;; esac

"$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target"/wheels/*.whl
"$venv/bin/pytest" --quiet crates/python/tests
"$venv/bin/mypy" -p fairmesh
"$venv/bin/mypy" crates/python/tests
"$venv/bin/stubtest" fairmesh
