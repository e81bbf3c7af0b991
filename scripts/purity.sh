#!/usr/bin/env bash
# Checks that the core crates are pure: they build for a target without clock, files, network and randomness.
# Functions that compile there and fail when called are forbidden by clippy, except where code allows one by name
# (clippy.toml, Cargo.toml; `make check` runs clippy first).
set -euo pipefail
cd "$(dirname "$0")/.."
core="units document phy wifi transport queueing control capacity scenario medium engine"
packages=$(printf -- '-p fairmesh-%s ' $core)

# shellcheck disable=SC2086
if rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null | xargs -r ls >/dev/null 2>&1; then
    CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 \
        cargo check --quiet --target wasm32-unknown-unknown $packages
    echo "purity: the core compiles for wasm32-unknown-unknown"
else
    echo "purity: SKIPPED building for wasm32-unknown-unknown, the toolchain lacks this target"
fi
for crate in $core; do
    if grep -rnE 'allow\(clippy::disallowed_methods|std::(time::(Instant|SystemTime)|thread|net|fs|env|process|io)|thread_rng|getrandom' "crates/$crate/src"; then
        echo "purity: crates/$crate touches the outside world (above)" >&2
        exit 1
    fi
done
echo "purity: no clock, file, thread or ambient randomness in: $core"
