#!/usr/bin/env bash
# Installs, upgrades and removes the Debian package in a copy of this machine: an overlay over / in separate
# namespaces, so that nothing here changes. packages.sh calls it inside of them.
#   package-life.sh DEB FOLDER
set -euo pipefail
deb=$1
work=$2
root=$work/root
fail() { printf 'package-life: %s\n' "$*" >&2; exit 1; }

mount --make-rprivate /
mkdir -p "$work/upper" "$root"
mount -t tmpfs none "$work/upper"
mkdir "$work/upper/files" "$work/upper/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper/files,workdir=$work/upper/work" "$root"
mount -t proc proc /proc
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/run"
cp "$deb" "$root/run/package.deb"

# The two interfaces of the example.
ip link set lo up
ip link add bat0 type veth peer name mesh-peer
ip link add eth0 type veth peer name wan-peer
for i in bat0 mesh-peer eth0 wan-peer; do ip link set "$i" up; done

inside() { chroot "$root" "$@"; }
ours() { tc qdisc show | grep ' fa1:' || true; nft list tables | grep fairmesh || true; }
status() { inside fairmesh-gateway status --json 2>/dev/null; }
wait_for() { # wait_for WHAT COMMAND...
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    fail "$what: never came"
}
runs() { status | grep '"phase":"running"' >/dev/null; }
start() {
    # No daemon of this machine responds here.
    chroot "$root" fairmesh-gateway run 2> "$work/daemon.log" &
    daemon=$!
    wait_for "the daemon ($(cat "$work/daemon.log"))" runs
}

[ -z "$(ours)" ] || fail "there is something of ours already: $(ours)"
# By apt, as an operator, if this machine has what the package depends on.
install=(dpkg --install --force-depends --force-unsafe-io)
if inside dpkg-query --show nftables iproute2 >/dev/null 2>&1 && command -v apt-get >/dev/null; then
    install=(apt-get install --yes --no-install-recommends --option DPkg::Options::=--force-unsafe-io)
fi
inside "${install[@]}" /run/package.deb > "$work/dpkg.log" 2>&1 || fail "$(cat "$work/dpkg.log")"
# As shipped, on a gateway with these interfaces.
inside fairmesh-gateway check > "$work/check.log" 2>&1 || fail "check: $(cat "$work/check.log")"
inside test -f /lib/systemd/system/fairmesh-gateway.service || fail "no unit"
[ -z "$(ours)" ] || fail "installing and checking touched the kernel: $(ours)"

start
[ -n "$(ours)" ] || fail "it runs and has put nothing into the kernel"
tc class show dev bat0 | grep 'ceil' >/dev/null || fail "no classes"
inside fairmesh-gateway doctor > "$work/doctor.log" 2>&1 || [ $? = 1 ] || fail "doctor: $(cat "$work/doctor.log")"
kill -TERM "$daemon"
wait "$daemon" || fail "it did not end well: $(cat "$work/daemon.log")"

# The operator's configuration survives an upgrade.
echo '# mine' >> "$root/etc/fairmesh/gateway.toml"
inside dpkg --install --force-depends --force-unsafe-io --force-confold /run/package.deb > "$work/dpkg.log" 2>&1 || fail "upgrade: $(cat "$work/dpkg.log")"
grep -qx '# mine' "$root/etc/fairmesh/gateway.toml" || fail "the upgrade lost the operator's file"

# Purged after all processes were killed at once.
start
# shellcheck disable=SC2046
kill -KILL "$daemon" $(inside pgrep --full 'guard --layout')
wait "$daemon" 2>/dev/null || true
inside dpkg --purge --force-depends --force-unsafe-io fairmesh-gateway > "$work/dpkg.log" 2>&1 || fail "purge: $(cat "$work/dpkg.log")"
[ -z "$(ours)" ] || fail "the purge left in the kernel: $(ours)"
left=$(cd "$root" && find etc usr lib var/lib/fairmesh var/lib/dpkg/info run -xdev -iname '*fairmesh*' 2>/dev/null | grep -v '^run/fairmesh' || true)
[ -z "$left" ] || fail "the purge left: $left"
