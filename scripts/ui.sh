#!/usr/bin/env bash
# Checks and tests of the pages (ui): types, the committed builds, the explorer and the gateway's page in Chromium.
# Needs Node.js 18 or newer with npm, Chromium, the release build, and the test program of the daemon.
set -euo pipefail
cd "$(dirname "$0")/../ui"

missing() {
    if [ -n "${FAIRMESH_NO_SKIP:-}" ]; then
        echo "ui: $1" >&2
        exit 1
    fi
    echo "ui: skipped: $1" >&2
    exit 0
}

command -v node >/dev/null && command -v npm >/dev/null || missing "Node.js with npm is missing"
[ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 18')" = true ] || missing "Node.js 18 or newer is needed"
[ -x "${CHROMIUM:=/usr/bin/chromium}" ] || missing "$CHROMIUM is missing"
export CHROMIUM
# Nothing is fetched if the packages of the lock file are installed.
if ! cmp -s package-lock.json node_modules/.fairmesh-lock; then
    npm ci --silent --no-audit --no-fund --ignore-scripts || missing "the packages of package-lock.json cannot be fetched"
    cp package-lock.json node_modules/.fairmesh-lock
fi
npm run --silent check
exec node --test test/
