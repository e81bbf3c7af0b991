#!/usr/bin/env bash
# Prints the path of zig, the linker for other processors: $ZIG, else a pinned one from the Python package index,
# kept under the target folder. The exit status is 3 if it cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.15.2
mkdir -p "${CARGO_TARGET_DIR:-target}/tools"
folder=$(cd "${CARGO_TARGET_DIR:-target}/tools" && pwd)/zig-$version
zig=${ZIG:-$folder/ziglang/zig}
if [ ! -x "$zig" ]; then
    echo "zig: fetching zig $version" >&2
    timeout 600 python3 -m pip install --quiet --no-deps --disable-pip-version-check --root-user-action=ignore \
        --target "$folder" "ziglang==$version" >&2 || { echo "zig: cannot fetch zig $version" >&2; exit 3; }
    chmod +x "$zig"
fi
echo "$zig"
