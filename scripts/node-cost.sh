#!/usr/bin/env bash
# Prints the cost of fairmesh-node with 8 neighbours: instructions per second of MIPS (qemu-user) for each mechanism, and
# memory, processor time and messages of real daemons with `gap` in network namespaces. The latter needs root.
#   scripts/node-cost.sh [SECONDS]
# Instructions are those of the program, with drivers that are read from memory and messages that a cell of nine routers
# has sent; system calls are not counted. The real daemons have no radio: their time contains system calls, but no
# reports of stations and channels.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}
neighbours=8
say() { printf 'node-cost: %s\n' "$*"; }

# Mechanisms have settled in the counted time, in s.
short=6
long=10
instructions() { # instructions CONTROL ROLE: per second, the difference between two runs
    local first last
    first=$(count "$1" "$2" $short)
    last=$(count "$1" "$2" $long)
    awk -v a="$first" -v b="$last" -v s=$((long - short)) -v c="$1" -v r="$2" \
        -v t="$(qemu-mipsel-static "$example" replay "$1" "$messages" $long "$2" apply)" 'BEGIN {
        n = (b - a) / s
        printf "node-cost: %s, %s, mipsel: %.2f million instructions per second, %.2f %% of 580 million; %s\n", c, r, n / 1e6, n / 5.8e6, t }'
}
count() {
    qemu-mipsel-static -singlestep -d exec,nochain "$example" replay "$1" "$messages" "$3" "$2" apply 2>&1 > /dev/null \
        | grep -c '^Trace'
}

code=0
example=$(EXAMPLE=node-cost scripts/gateway.sh mipsel-unknown-linux-musl) || code=$?
if [ "$code" != 0 ] || ! command -v qemu-mipsel-static > /dev/null; then
    say "SKIPPED: instructions of MIPS: no toolchain or no qemu-user"
else
    messages=$(mktemp)
    native=$(EXAMPLE=node-cost scripts/gateway.sh "$(uname -m)-unknown-linux-musl")
    for control in gap lbm+multihop+messages+even cna+sampled+messages mesh-maxmin+sampled+messages; do
        "$native" record $control "$messages" $long
        for role in gateway router; do instructions $control $role; done
    done
    rm "$messages"
fi

if [ "$(id -u)" != 0 ]; then
    say "SKIPPED: real daemons: needs root"
    exit 0
fi
binary=$(realpath "$(scripts/gateway.sh "$(uname -m)-unknown-linux-musl")")
binary=${binary%/*}/fairmesh-node
work=$(mktemp -d)
ns=fmnode$$
pids=()
cleanup() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait
    for n in air $(seq 0 $neighbours); do ip netns del "$ns$n" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
ip netns add "${ns}air"
ip -n "${ns}air" link add name air type bridge
ip -n "${ns}air" link set air up
(umask 077; "$binary" key > "$work/key")
# Number 0 is the gateway, without control because a cable has no survey; number 1 is measured.
for n in $(seq 0 $neighbours); do
    ip netns add "$ns$n"
    ip -n "$ns$n" link set lo up
    ip link add name m0 netns "$ns$n" type veth peer name "m$n" netns "${ns}air"
    ip -n "${ns}air" link set dev "m$n" master air
    ip -n "${ns}air" link set dev "m$n" up
    ip -n "$ns$n" link set m0 up
    ip -n "$ns$n" addr add "10.7.0.$((n + 1))/24" dev m0
    {
        printf 'interfaces = ["m0"]\nrouting = "layer3"\nrate = "54 Mbit/s"\nkey = "%s/key"\n' "$work"
        [ "$n" != 0 ] || echo 'role = "gateway"'
        [ "$n" != 1 ] || printf 'mode = "apply"\n[control]\nuse = "gap"\nguarantee = 200\n'
        printf '[paths]\nsocket = "%s/%s.sock"\nstate = "%s/%s"\n' "$work" "$n" "$work" "$n"
    } > "$work/$n.toml"
    ip netns exec "$ns$n" "$binary" run --config "$work/$n.toml" 2> "$work/$n.log" &
    pids+=($!)
done
pid=${pids[1]}
status() { ip netns exec "${ns}1" "$binary" status --json --config "$work/1.toml" 2>/dev/null; }
until status | grep -q '"applied":true'; do
    kill -0 "$pid" || { cat "$work/1.log" >&2; exit 1; }
    sleep 0.2
done
sleep 3
ticks() { awk '{ print $14 + $16, $15 + $17 }' "/proc/$pid/stat"; }
sent() { ip netns exec "${ns}1" cat /sys/class/net/m0/statistics/tx_bytes; }
read -r user system < <(ticks)
before=$(sent)
sleep "$seconds"
read -r user2 system2 < <(ticks)
after=$(sent)
rss() { awk '/VmRSS/ { print $2 }' "/proc/$1/status"; }
awk -v s="$seconds" -v h="$(getconf CLK_TCK)" -v u=$((user2 - user)) -v k=$((system2 - system)) -v r="$(rss "$pid")" \
    -v g="$(rss "$(pgrep -P "$pid" | head -n 1)")" -v o=$((after - before)) -v n=$neighbours -v p="$(uname -m)" 'BEGIN {
    printf "node-cost: router with %d neighbours, %s: %.1f MB, guard %.1f MB; %.2f %% of one core in the program, %.2f %% in the kernel; %.0f octets per second on the air\n",
        n, p, r / 1024, g / 1024, 100 * u / h / s, 100 * k / h / s, o / s }'
