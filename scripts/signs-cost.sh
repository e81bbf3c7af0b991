#!/usr/bin/env bash
# Measures the cost of reading headers to the gateway's daemon (root): its CPU time at three rates through
# namespaces, without reading, with TCP headers, and also with UDP headers.
#   scripts/signs-cost.sh PROGRAM [SECONDS]
# docs/gateway-signs.md has the result.
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
# Packets of one frame, because larger ones would give fewer headers.
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

# reads CONTROL READ: a daemon that observes, with this control and signs.read.
reads() {
    cat > "$work/gateway.toml" <<TOML
mode = "observe"
unmapped = "pass"
mesh.interface = "mesh"
wired.interface = "wan"
control.use = "$1"
signs.read = $2
shaping.sample = "1 s"
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
    ip netns exec "$n-g" "$program" run --no-guard --config "$work/gateway.toml" 2> "$work/log" &
    daemon=$!
    children+=("$daemon")
    sleep 3
}
# CPU time of all the daemon's threads, ns; packets on the mesh interface.
used() { cat /proc/"$daemon"/task/*/schedstat | awk '{ n += $1 } END { print n }'; }
packets() { awk '/mesh:/ { print $3 + $11 }' <(ip netns exec "$n-g" cat /proc/net/dev); }
# traffic RATE PROTOCOL: packets towards the home, with QUIC's port for UDP.
traffic() {
    local udp=()
    [ "$2" = udp ] && udp=(-u -l 1200 --cport 443)
    ip netns exec "$n-w" iperf3 -c 10.1.0.2 -t "$seconds" -b "$1" ${udp[@]+"${udp[@]}"} > "$work/iperf"
}
for rate in 1M 100M 500M; do
    for protocol in tcp udp; do
        base=
        for read in false true; do
            reads fifo "$read"
            ns=$(used) count=$(packets)
            traffic "$rate" "$protocol"
            ns=$(($(used) - ns)) count=$(($(packets) - count))
            got=$(awk '/receiver/ { r = $7 " " $8 } END { print r }' "$work/iperf")
            lost=$(ip netns exec "$n-g" "$program" status --config "$work/gateway.toml" | grep "^TCP headers" || true)
            : "${base:=$ns}"
            awk -v ns="$ns" -v base="$base" -v c="$count" -v s="$seconds" -v rate="$rate $protocol" -v r="$read" -v got="$got" -v lost="$lost" 'BEGIN {
                printf "%s, read %s: %s, %d packets/s; daemon %.2f %% of a core, %.1f times no reading, %.0f ns a packet more; %s\n",
                    rate, r, got, c / s, ns / s / 1e7, ns / base, (ns - base) / c, lost }'
            kill "$daemon"
            wait "$daemon" || true
        done
    done
done
