#!/usr/bin/env bash
# Builds the static daemon for every kind of router and runs it; builds the packages, installs, checks, runs and
# purges them.
#   scripts/packages.sh [TARGET...]   by default those of `scripts/gateway.sh --list`
# Foreign binaries run under qemu-user. Steps that this machine cannot run are skipped with a line; with
# FAIRMESH_NO_SKIP set, a skipped step is a failure. A target or qemu that cannot be fetched is always skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${CARGO_TARGET_DIR:-target}
config=packaging/examples/gateway.toml
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'packages: %s\n' "$*"; }
fail() { printf 'packages: %s\n' "$*" >&2; exit 1; }
skip() {
    if [ -n "${FAIRMESH_NO_SKIP:-}" ]; then fail "$*, and nothing may be skipped here"; fi
    say "SKIPPED: $*"
}

# Runs the first commands on a router: --version, and check with a good and a wrong file.
try() { # try BINARY [EMULATOR]; fairmesh-node is a link to it
    local binary=$1 emulator=${2:-} code=0
    [ "$($emulator "$binary" --version)" = "fairmesh-gateway $version" ] || fail "$binary: --version"
    [ "$($emulator "${binary%/*}/fairmesh-node" --version)" = "fairmesh-node $version" ] || fail "${binary%/*}/fairmesh-node: --version"
    $emulator "$binary" check --config $config > "$work/check" 2>&1 || code=$?
    # Status 1: the example's interfaces do not exist here.
    [ "$code" -le 1 ] || fail "$binary: check ended with $code: $(cat "$work/check")"
    grep -q '^ok   configuration: ' "$work/check" || fail "$binary: $(cat "$work/check")"
    # Starts, responds, and ends in order; a foreign kernel interface below qemu-user lacks a part.
    rm -rf "$work/node" && mkdir "$work/node"
    (umask 077 && $emulator "${binary%/*}/fairmesh-node" key > "$work/node/key")
    printf 'interfaces = ["lo"]\nrouting = "layer3"\nrate = "54 Mbit/s"\nkey = "%s/key"\n[paths]\nsocket = "%s/sock"\nstate = "%s"\n' \
        "$work/node" "$work/node" "$work/node" > "$work/node/node.toml"
    $emulator "${binary%/*}/fairmesh-node" run --config "$work/node/node.toml" 2> "$work/node/log" &
    local node=$! answers=
    for _ in $(seq 100); do
        if $emulator "${binary%/*}/fairmesh-node" status --config "$work/node/node.toml" > "$work/node/status" 2> /dev/null; then answers=yes; break; fi
        sleep 0.1
    done
    kill "$node"
    wait "$node" && [ -n "$answers" ] || fail "${binary%/*}/fairmesh-node does not run: $(cat "$work/node/log")"
    printf 'mode = "maybe"\n' > "$work/wrong.toml"
    code=0
    $emulator "$binary" check --config "$work/wrong.toml" > "$work/wrong" 2>&1 || code=$?
    [ "$code" = 2 ] || fail "$binary: a wrong file ended with $code"
}

emulator() { # emulator TARGET: the emulator of its programs, empty for this processor
    [ "$1" = "$(uname -m)" ] && return 0
    local name=${1/armv7/arm}
    command -v "qemu-$name-static" || command -v "qemu-$name" || return 1
}

if [ $# = 0 ]; then
    mapfile -t targets < <(scripts/gateway.sh --list)
    set -- "${targets[@]}"
fi
declare -A binaries
for target in "$@"; do
    processor=${target%%-*}
    code=0
    binary=$(scripts/gateway.sh "$target") || code=$?
    if [ "$code" = 3 ]; then
        say "SKIPPED: $target: its toolchain cannot be fetched"
        continue
    fi
    [ "$code" = 0 ] || fail "$target does not build"
    ! readelf -l "$binary" | grep INTERP >/dev/null || fail "$binary is not static"
    if emulate=$(emulator "$processor"); then
        # shellcheck disable=SC2086
        try "$binary" $emulate
        say "$target: $(stat -c %s "$binary") bytes, static, runs"
    else
        say "SKIPPED: $target: built, not run: no qemu-user"
    fi
    binaries[$processor]=$binary
done

[ ${#binaries[@]} -gt 0 ] || exit 0
for processor in "${!binaries[@]}"; do
    { read -r ipk && read -r luci; } < <(packaging/openwrt/build.sh "${binaries[$processor]}" "$dir/openwrt" "$processor")
    rm -rf "$work/ipk" && mkdir -p "$work/ipk/root"
    tar -xzf "$ipk" -C "$work/ipk"
    tar -xzf "$work/ipk/control.tar.gz" -C "$work/ipk"
    tar -xzf "$work/ipk/data.tar.gz" -C "$work/ipk/root"
    grep -qx "Architecture: $processor" "$work/ipk/control" || fail "$ipk: architecture"
    for file in usr/bin/fairmesh-gateway usr/bin/fairmesh-node etc/init.d/fairmesh-gateway etc/init.d/fairmesh-node etc/config/fairmesh usr/lib/fairmesh/uci-to-toml.sh \
        usr/share/doc/fairmesh-gateway/NOTICES.gz; do
        [ -e "$work/ipk/root/$file" ] || fail "$ipk: no $file"
    done
    for script in "$work"/ipk/{postinst,prerm} "$work"/ipk/root/etc/init.d/* "$work"/ipk/root/usr/lib{exec/rpcd,/fairmesh}/*; do
        sh -n "$script" || fail "$ipk: $script"
    done
    # Installs into the tree of a router's image; this machine is not touched.
    IPKG_INSTROOT=$work/ipk/root sh "$work/ipk/postinst" && IPKG_INSTROOT=$work/ipk/root sh "$work/ipk/prerm"
    # Its binary accepts its own configuration from its own converter.
    FAIRMESH_FUNCTIONS=crates/agent/tests/uci/functions.sh UCI_FILE=$work/ipk/root/etc/config/fairmesh \
        sh "$work/ipk/root/usr/lib/fairmesh/uci-to-toml.sh" > "$work/uci.toml"
    if emulate=$(emulator "$processor"); then
        code=0
        # shellcheck disable=SC2086
        $emulate "$work/ipk/root/usr/bin/fairmesh-gateway" check --config "$work/uci.toml" > "$work/check" 2>&1 || code=$?
        [ "$code" -le 1 ] && grep -q '^ok   configuration: ' "$work/check" || fail "$ipk: $(cat "$work/check")"
        # Every method that LuCI may call exists.
        # shellcheck disable=SC2086
        $emulate "$work/ipk/root/usr/bin/fairmesh-gateway" ubus list > "$work/methods" || fail "$ipk: ubus list"
        python3 - "$work/methods" packaging/openwrt/luci/acl.json <<'EOF' || fail "$luci: a right for a method that is missing"
import json, sys
methods, rights = (json.load(open(f)) for f in sys.argv[1:])
named = [m for kind in ("read", "write") for m in rights["luci-app-fairmesh"][kind]["ubus"]["fairmesh"]]
sys.exit(sorted(named) != sorted(methods))
EOF
    fi
    tar -xzOf "$luci" ./data.tar.gz | tar -tz > "$work/luci"
    for file in www/luci-static/resources/view/fairmesh/homes.js usr/share/luci/menu.d/luci-app-fairmesh.json \
        usr/share/rpcd/acl.d/luci-app-fairmesh.json; do
        grep -qx "./$file" "$work/luci" || fail "$luci: no $file"
    done
    say "$ipk: unpacks, its configuration is accepted"
done

# Exposure of the daemon's unit and of the reset unit by systemd's scale of 0 to 10.
for unit in packaging/systemd/*.service; do
    if ! command -v systemd-analyze >/dev/null; then
        skip "$unit: no systemd-analyze"
        continue
    fi
    systemd-analyze security --offline=yes "./$unit" > "$work/exposure"
    exposure=$(sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p' "$work/exposure")
    # A mesh router loads programs that mark packets, and its neighbours have any address.
    most=1.5
    [ "${unit##*/}" != fairmesh-node.service ] || most=1.7
    awk -v e="$exposure" -v m=$most 'BEGIN { exit !(e != "" && e <= m) }' || fail "$unit: exposure $exposure; expected at most $most: $(grep '^✗' "$work/exposure")"
    say "$unit: exposure $exposure of 10"
done

if ! command -v dpkg-deb >/dev/null; then
    skip "the Debian package: no dpkg"
    exit 0
fi
for processor in "${!binaries[@]}"; do
    case $processor in
    x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; armv7) arch=armel ;; *) arch=$processor ;;
    esac
    deb=$(DEB_ARCH=$arch packaging/deb/build.sh "${binaries[$processor]}" "$dir/debian")
    dpkg-deb --contents "$deb" > "$work/contents"
    for file in bin/fairmesh-gateway bin/fairmesh-node share/man/man1/fairmesh-node.1.gz share/man/man1/fairmesh-gateway.1.gz share/man/man1/fairmesh-gateway-status.1.gz \
        share/bash-completion/completions/fairmesh-gateway share/zsh/vendor-completions/_fairmesh-gateway \
        share/fish/vendor_completions.d/fairmesh-gateway.fish share/doc/fairmesh-gateway/NOTICES.gz; do
        grep -q " ./usr/$file\( -> .*\)\?\$" "$work/contents" || fail "$deb: no /usr/$file"
    done
    [ "$processor" = "$(uname -m)" ] || continue
    if [ "$(id -u)" = 0 ] && unshare --mount --net true 2>/dev/null && grep -qw overlay /proc/filesystems; then
        unshare --mount --net --fork --pid --kill-child scripts/package-life.sh "$PWD/$deb" "$work"
        say "$deb: installed, checked, run, upgraded, killed, purged; nothing is left"
    else
        skip "$deb: built, not installed: needs root, namespaces and overlayfs"
    fi
done
