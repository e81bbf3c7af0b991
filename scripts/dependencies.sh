#!/usr/bin/env bash
# Dependencies: licences, sources, no open versions (deny.toml); none unused; advisories where their
# database can be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v cargo-deny >/dev/null; then
    cargo deny --locked check bans licenses sources 2>&1 | tail -n 40
elif [ -n "${FAIRMESH_NO_SKIP:-}" ]; then
    echo "dependencies: no cargo-deny, and nothing may be skipped here" >&2
    exit 1
else
    echo "dependencies: SKIPPED, there is no cargo-deny"
fi

if command -v cargo-machete >/dev/null; then
    cargo machete --skip-target-dir crates fuzz examples
elif [ -n "${FAIRMESH_NO_SKIP:-}" ]; then
    echo "dependencies: no cargo-machete, and nothing may be skipped here" >&2
    exit 1
else
    echo "dependencies: unused ones SKIPPED, there is no cargo-machete"
fi

# An advisory is an "error[...]"; any other failure means that the database could not be fetched.
if command -v cargo-deny >/dev/null; then
    if found=$(timeout 60 cargo deny --locked check advisories 2>&1); then
        echo "dependencies: no advisory"
    elif grep -q '^error\[' <<< "$found"; then
        printf '%s\n' "$found" | tail -n 40
        exit 1
    else
        echo "dependencies: advisories not run, their database cannot be fetched here"
    fi
fi
