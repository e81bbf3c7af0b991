#!/usr/bin/env bash
# Compares instruction counts with the stored ones, or stores new ones with --update. Counts depend on the compiler,
# so they are compared only under the compiler that produced them.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=validation/bench/compiler
if [ "${1:-}" = --update ]; then
    target/release/fairmesh-experiments bench --instructions --update
    rustc --version >"$kept"
elif [ "$(rustc --version)" = "$(cat "$kept")" ]; then
    target/release/fairmesh-experiments bench --instructions
else
    echo "instructions: SKIPPED, the counts were kept with $(cat "$kept"), this is $(rustc --version)"
fi
