#!/usr/bin/env bash
# Checks dependencies: licences, sources, bounded versions (deny.toml), unused ones, and advisories if their
# database can be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v cargo-deny >/dev/null; then
    cargo deny --locked check bans licenses sources 2>&1 | tail -n 40
elif [ -n "${FAIRMESH_NO_SKIP:-}" ]; then
    echo "dependencies: cargo-deny is missing, and FAIRMESH_NO_SKIP is set" >&2
    exit 1
else
    echo "dependencies: SKIPPED, cargo-deny is not installed"
fi

if command -v cargo-machete >/dev/null; then
    cargo machete --skip-target-dir crates fuzz examples
elif [ -n "${FAIRMESH_NO_SKIP:-}" ]; then
    echo "dependencies: cargo-machete is missing, and FAIRMESH_NO_SKIP is set" >&2
    exit 1
else
    echo "dependencies: unused ones SKIPPED, cargo-machete is not installed"
fi

# An advisory is an "error[...]"; any other failure means that the database could not be fetched.
if command -v cargo-deny >/dev/null; then
    if found=$(timeout 60 cargo deny --locked check advisories 2>&1); then
        echo "dependencies: no advisory"
    elif grep -q '^error\[' <<< "$found"; then
        printf '%s\n' "$found" | tail -n 40
        exit 1
    else
        echo "dependencies: advisories not checked, their database cannot be fetched"
    fi
fi
