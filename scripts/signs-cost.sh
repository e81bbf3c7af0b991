#!/usr/bin/env bash
# What reading TCP's headers costs the gateway's daemon (root): CPU time per packet, through namespaces, with headers
# read and not. `scripts/signs-cost.sh PROGRAM [SECONDS]`; docs/gateway.md has what came out.
set -euo pipefail
program=$(realpath "${1:?the daemon\'s binary}") seconds=${2:-20}
if [ "$(id -u)" != 0 ] || ! command -v iperf3 >/dev/null; then
    echo "signs-cost: SKIPPED, needs root and iperf3" >&2
    exit 0
fi
work=$(mktemp -d)
n=fmsc-$$
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for ns in w g h; do ip netns del "$n-$ns" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
for ns in w g h; do
    ip netns add "$n-$ns"
    ip -n "$n-$ns" link set lo up
done
# Packets of one frame: with larger ones there would be fewer headers.
ip link add name w0 netns "$n-w" gso_max_segs 1 type veth peer name wan netns "$n-g"
ip link add name h0 netns "$n-h" gso_max_segs 1 type veth peer name mesh netns "$n-g"
ip -n "$n-w" addr add 10.99.0.2/24 dev w0
ip -n "$n-g" addr add 10.99.0.1/24 dev wan
ip -n "$n-g" addr add 10.1.0.1/24 dev mesh
ip -n "$n-h" addr add 10.1.0.2/24 dev h0
for link in w:w0 g:wan g:mesh h:h0; do ip -n "$n-${link%:*}" link set "${link#*:}" up; done
ip -n "$n-w" route add default via 10.99.0.1
ip -n "$n-h" route add default via 10.1.0.1
ip netns exec "$n-g" sysctl -qw net.ipv4.ip_forward=1
ip netns exec "$n-h" iperf3 -s > "$work/server" 2>&1 &
children+=($!)

for read in true false true false; do
    cat > "$work/gateway.toml" <<TOML
mode = "observe"
unmapped = "pass"
mesh.interface = "mesh"
wired.interface = "wan"
control.use = "maxmin"
signs.read = $read
[[neighbour]]
name = "n"
capacity = "900 Mbit/s"
[[subscriber]]
name = "home"
prefixes = ["10.1.0.0/24"]
[paths]
state = "$work/state"
socket = "$work/socket"
[metrics]
listen = "127.0.0.1:9742"
TOML
    ip netns exec "$n-g" "$program" run --config "$work/gateway.toml" 2> "$work/log" &
    daemon=$!
    children+=("$daemon")
    sleep 3
    used() { awk "{ print \$14 + \$15 }" "/proc/$daemon/stat"; }
    packets() { awk '/mesh:/ { print $3 + $11 }' <(ip netns exec "$n-g" cat /proc/net/dev); }
    ticks=$(used) count=$(packets)
    ip netns exec "$n-w" iperf3 -c 10.1.0.2 -t "$seconds" -P 4 -M 536 > "$work/iperf"
    ticks=$(($(used) - ticks)) count=$(($(packets) - count))
    rate=$(awk '/SUM.*receiver/ { print $6, $7 }' "$work/iperf")
    lost=$(ip netns exec "$n-g" "$program" status --config "$work/gateway.toml" | grep "^TCP's headers" || true)
    awk -v t="$ticks" -v c="$count" -v s="$seconds" -v hz="$(getconf CLK_TCK)" -v r="$read" -v rate="$rate" -v lost="$lost" 'BEGIN {
        printf "read %s: %d packets/s, %s; daemon %.2f %% of a core, %.0f ns a packet; %s\n", r, c / s, rate, 100 * t / hz / s, 1e9 * t / hz / c, lost }'
    kill "$daemon"
    wait "$daemon" || true
done
