#!/usr/bin/env bash
# Builds the static daemons and prints the path of each fairmesh-gateway; fairmesh-node is a link to it.
#   scripts/gateway.sh [TARGET...]   by default for this machine's processor
# With EXAMPLE=NAME only that example of the crate is built, and the path of its executable is printed.
#   scripts/gateway.sh --list        prints the targets of packages and releases, or those of FAIRMESH_ROUTERS
# x86_64 and aarch64: Rust's own library, musl and linker.
# armv7, mips and mipsel (soft float, as OpenWrt's mips_24kc and mipsel_24kc): Rust has no precompiled library for mips,
# so the library is built from source; zig provides the linker and musl. Both are fetched if missing; the exit status
# is 3 if that is not possible.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
dir=${CARGO_TARGET_DIR:-target}

say() { printf 'gateway: %s\n' "$*" >&2; }

fetch() { # fetch WHAT COMMAND...
    say "fetching $1"
    timeout 600 "${@:2}" >&2 || { say "cannot fetch $1"; exit 3; }
}

# A linker based on zig.
zig() { # zig PROCESSOR
    local zig tools
    zig=$(scripts/zig.sh)
    tools=$(cd "$dir/tools" && pwd)
    linker=$tools/$1-zig
    printf '#!/bin/sh\nexec "%s" cc -target %s-linux-musleabi "$@"\n' "$zig" "${1/armv7/arm}" > "$linker"
    chmod +x "$linker"
}

what=(-p fairmesh-agent)
if [ -n "${EXAMPLE:-}" ]; then what+=(--example "$EXAMPLE"); else what+=(--bin fairmesh-gateway); fi

build() { # build TARGET [ARGUMENT...]
    "$cargo" build --quiet --locked --profile gateway --target "$1" "${what[@]}" "${@:2}" >&2
}

[ $# -gt 0 ] || set -- "$(uname -m)-unknown-linux-musl"
if [ "$1" = --list ]; then
    all=({x86_64,aarch64,mips,mipsel}-unknown-linux-musl armv7-unknown-linux-musleabi)
    printf '%s\n' ${FAIRMESH_ROUTERS:-${all[@]}}
    exit 0
fi
for target in "$@"; do
    case $target in
    armv7-unknown-linux-musleabi | mips-unknown-linux-musl | mipsel-unknown-linux-musl)
        command -v rustup >/dev/null || { say "$target needs rustup"; exit 3; }
        rustup component list --installed | grep '^rust-src' >/dev/null || fetch rust-src rustup component add rust-src
        mkdir -p "$dir/tools"
        zig "${target%%-*}"
        variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<< "$target")
        # A changed RUSTC_BOOTSTRAP makes Cargo rebuild everything, including proc-macros; hence a separate
        # folder.
        (
            export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$dir/build-std "${variable}_LINKER=$linker"
            export "${variable}_RUSTFLAGS=-Ctarget-feature=+crt-static -Clink-self-contained=no"
            build "$target" -Zbuild-std=std,panic_unwind
        )
        program=${EXAMPLE:+examples/}${EXAMPLE:-fairmesh-gateway}
        install -D "$dir/build-std/$target/gateway/$program" "$dir/$target/gateway/$program"
        ;;
    *)
        if command -v rustup >/dev/null; then
            rustup target list --installed | grep -x "$target" >/dev/null || fetch "$target" rustup target add "$target"
        fi
        if [ "$target" = "$(uname -m)-unknown-linux-musl" ]; then
            build "$target"
        else
            linker=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<< "$target")_LINKER
            env "$linker=rust-lld" "$cargo" build --quiet --locked --profile gateway --target "$target" "${what[@]}" >&2
        fi
        ;;
    esac
    [ -n "${EXAMPLE:-}" ] || ln -sf fairmesh-gateway "$dir/$target/gateway/fairmesh-node"
    echo "$dir/$target/gateway/${EXAMPLE:+examples/}${EXAMPLE:-fairmesh-gateway}"
done
