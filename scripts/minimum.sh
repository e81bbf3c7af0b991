#!/usr/bin/env bash
# Compiles the workspace with the oldest Rust that Cargo.toml names (rust-version).
set -euo pipefail
cd "$(dirname "$0")/.."
minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if [ "$(rustc --version | cut -d' ' -f2 | cut -d. -f1,2)" = "$minimum" ]; then
    exec cargo check --quiet --workspace
elif command -v rustup >/dev/null && rustup toolchain list | grep "^$minimum" >/dev/null; then
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/minimum" exec cargo "+$minimum" check --quiet --workspace
fi
echo "minimum: not run, Rust $minimum is not installed"
