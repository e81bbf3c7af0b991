#!/usr/bin/env bash
# What the dependencies are: licences, sources, no version left open (deny.toml). Their advisories
# need a database from outside: `cargo deny check advisories` before a release.
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
