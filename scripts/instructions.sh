#!/usr/bin/env bash
# Compares instruction counts with the kept ones, or keeps new ones with --update. Counts depend on
# the compiler, so they are compared only under the one they were kept with.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=validation/bench/compiler
# The rows of validation/ns3, and those of radios of today.
count() {
    target/release/fairmesh bench --instructions "$@"
    target/release/fairmesh bench --instructions --reference validation/ns3-modern \
        --kept validation/bench/instructions-modern.json "$@"
}
if [ "${1:-}" = --update ]; then
    count --update
    rustc --version >"$kept"
elif [ "$(rustc --version)" = "$(cat "$kept")" ]; then
    count
else
    echo "instructions: SKIPPED, the counts were kept with $(cat "$kept"), this is $(rustc --version)"
fi
