#!/usr/bin/env bash
# Measures the cost of the gateway daemon: CPU time and memory with 100 and 10,000 subscribers at an epoch of one
# second, on a path of network namespaces. Needs root.
#   scripts/gateway-cost.sh BINARY [SECONDS [SUBSCRIBERS...]]
set -euo pipefail
binary=$(realpath "${1:?the daemon\'s binary}")
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- 100 10000
if [ "$(id -u)" != 0 ]; then
    echo "gateway-cost: SKIPPED, needs root" >&2
    exit 0
fi
work=$(mktemp -d)
ns=fmcost$$
cleanup() {
    [ -z "${pid:-}" ] || kill "$pid" 2>/dev/null || true
    sleep 1
    for n in w g m; do ip netns del "$ns$n" 2>/dev/null || true; done
    [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
for n in w g m; do
    ip netns add "$ns$n"
    ip -n "$ns$n" link set lo up
done
ip link add name w0 netns "${ns}w" type veth peer name wan netns "${ns}g"
ip link add name m0 netns "${ns}m" type veth peer name mesh netns "${ns}g"
ip -n "${ns}w" addr add 172.31.0.2/24 dev w0
ip -n "${ns}g" addr add 172.31.0.1/24 dev wan
ip -n "${ns}g" addr add 172.30.0.1/24 dev mesh
ip -n "${ns}m" addr add 172.30.0.2/24 dev m0
ip -n "${ns}w" link set w0 up
ip -n "${ns}m" link set m0 up
ip -n "${ns}g" link set wan up
ip -n "${ns}g" link set mesh up
ip -n "${ns}w" route add default via 172.31.0.1
ip -n "${ns}m" route add default via 172.30.0.1
ip -n "${ns}g" route add 10.0.0.0/8 via 172.30.0.2
ip -n "${ns}m" route add local 10.0.0.0/8 dev lo
ip netns exec "${ns}g" sysctl -qw net.ipv4.ip_forward=1

for n in "$@"; do
    {
        printf 'mode = "apply"\n[mesh]\ninterface = "mesh"\n[wired]\ninterface = "wan"\n'
        printf '[shaping]\nsample = "1 s"\n[control]\nuse = "pfrc"\nepoch = 1\n'
        printf '[[neighbour]]\nname = "m"\ncapacity = "1 Gbit/s"\n'
        printf '[paths]\nstate = "%s/state"\nsocket = "%s/sock"\n' "$work" "$work"
        for ((i = 0; i < n; i++)); do
            printf '[[subscriber]]\nname = "s%d"\nprefixes = ["10.%d.%d.0/28"]\n' \
                "$i" $((i / 250)) $((i % 250))
        done
    } > "$work/gateway.toml"
    ip netns exec "${ns}g" "$binary" run --config "$work/gateway.toml" > /dev/null 2> "$work/log" &
    pid=$!
    until ip netns exec "${ns}g" "$binary" status --config "$work/gateway.toml" 2>/dev/null |
        grep -q running; do
        kill -0 "$pid" || { cat "$work/log" >&2; exit 1; }
        sleep 0.2
    done
    # One process sends to all subscribers, so that every flow is active and rates change.
    ip netns exec "${ns}w" python3 - "$n" "$seconds" <<'PY' &
import socket, sys, time
n, seconds = int(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.time() + seconds + 5
while time.time() < end:
    start = time.time()
    for i in range(n):
        try:
            s.sendto(b"x" * 500, (f"10.{i // 250}.{i % 250}.1", 9))
        except OSError:
            pass
    time.sleep(max(0.0, 1.0 - (time.time() - start)))
PY
    traffic=$!
    sleep 5
    # Ended child processes (nft) count too.
    ticks() { awk '{ print $14 + $15 + $16 + $17 }' "/proc/$pid/stat"; }
    before=$(ticks)
    start=$(date +%s.%N)
    sleep "$seconds"
    after=$(ticks)
    end=$(date +%s.%N)
    rss=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
    guard=$(pgrep -P "$pid" | head -n 1)
    grss=$(awk '/VmRSS/ { print $2 }' "/proc/$guard/status" 2>/dev/null || echo 0)
    awk -v n="$n" -v t=$((after - before)) -v h="$(getconf CLK_TCK)" -v a="$start" -v b="$end" \
        -v r="$rss" -v g="$grss" 'BEGIN {
        printf "%6d subscribers: %.2f %% of one core, %.1f MB (guard %.1f MB)\n",
            n, 100 * t / h / (b - a), r / 1024, g / 1024 }'
    wait "$traffic" || true
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    ip netns exec "${ns}g" "$binary" reset --config "$work/gateway.toml" > /dev/null
    rm -rf "$work/state"
    pid=
done
