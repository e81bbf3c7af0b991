#!/bin/sh
# Prints gateway.toml from /etc/config/fairmesh. The daemon checks the values and names the keys.
. "${FAIRMESH_FUNCTIONS:-/lib/functions.sh}"

# A TOML basic string; control characters are not valid in UCI values.
quote() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037\177' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

# text SECTION OPTION KEY: a string, if the option is set.
text() {
    local value
    config_get value "$1" "$2"
    [ -z "$value" ] || printf '%s = %s\n' "$3" "$(quote "$value")"
}

# A number as written. Any other value, including one that TOML rejects (007, 1.2.3, .5, or more than 15 characters),
# becomes a string, which the daemon rejects by its key.
figure() {
    case "$1" in
        '' | *[!0-9.]* | *.*.* | .* | *. | 0[0-9]* | ????????????????*) quote "$1" ;;
        *) printf '%s' "$1" ;;
    esac
}

# number SECTION OPTION KEY: a number, if the option is set.
number() {
    local value
    config_get value "$1" "$2"
    [ -z "$value" ] || printf '%s = %s\n' "$3" "$(figure "$value")"
}

truth() {
    local value
    config_get_bool value "$1" "$2" 0
    [ "$value" = 0 ] || printf '%s = true\n' "$3"
}

# choice SECTION OPTION KEY: true or false, if the option is set.
choice() {
    local value
    config_get value "$1" "$2"
    [ -n "$value" ] || return 0
    config_get_bool value "$1" "$2" 1
    if [ "$value" = 1 ]; then printf '%s = true\n' "$3"; else printf '%s = false\n' "$3"; fi
}

element() { printf '%s, ' "$(quote "$1")"; }
port() { printf '%s, ' "$(figure "$1")"; }
# NAME=NUMBER of the control.
parameter() { printf '%s = %s\n' "$(quote "${1%%=*}")" "$(figure "${1#*=}")"; }

# list SECTION OPTION KEY: an array of strings, if there is one; ports: of numbers.
list() { array "$@" element; }
ports() { array "$@" port; }
array() {
    local all
    all=$(config_list_foreach "$1" "$2" "$4")
    [ -z "$all" ] || printf '%s = [%s]\n' "$3" "${all%, }"
}

rates() {
    number "$1" weight weight
    for key in down up guarantee_down guarantee_up fair_down fair_up; do text "$1" $key $key; done
}

gateway() {
    local any state size peers signs page key
    text "$1" mode mode; text "$1" unmapped unmapped; text "$1" time_zone time_zone; text "$1" include include
    printf '[mesh]\n'; text "$1" mesh interface
    printf '[wired]\n'; text "$1" wired interface
    printf '[control]\n'; text "$1" control use; number "$1" epoch epoch; number "$1" gamma gamma
    text "$1" fairness fairness
    for key in alpha_fairness guarantee airtime; do number "$1" $key $key; done
    config_list_foreach "$1" parameter parameter
    printf '[shaping]\n'
    for key in shaper leaf delay sample on_exit; do text "$1" $key $key; done
    number "$1" queue queue; ports "$1" bypass_udp bypass_udp; ports "$1" bypass_tcp bypass_tcp
    printf '[metrics]\n'; text "$1" metrics listen; text "$1" textfile textfile
    choice "$1" per_subscriber per_subscriber
    page=$(text "$1" page listen; list "$1" page_host hosts; text "$1" page_token token_file)
    [ -z "$page" ] || printf '[page]\n%s\n' "$page"
    # /var is RAM: overrides and the learned rate survive a restart; a reboot only if this is on flash.
    config_get state "$1" state /var/lib/fairmesh
    printf '[paths]\nstate = %s\nsocket = "/var/run/fairmesh/gateway.sock"\n' "$(quote "$state")"
    peers=$(number "$1" peer_number number; text "$1" peer_listen listen; list "$1" peer peer; text "$1" peer_key key)
    [ -z "$peers" ] || printf '[peers]\n%s\n' "$peers"
    # /var is RAM, also where the state is on flash.
    printf '[history]\nfolder = "/var/run/fairmesh/history"\n'
    config_get size "$1" history '1 MiB'
    printf 'size = %s\n' "$(quote "$size")"; text "$1" history_period period
    # Without the option the control decides.
    signs=$(choice "$1" signs read; choice "$1" probe probe)
    [ -z "$signs" ] || printf '[signs]\n%s\n' "$signs"
    any=$(text "$1" batman batman; text "$1" babel babel; text "$1" olsr olsr; text "$1" netjson netjson
        truth "$1" routes routes; text "$1" routes_by routes_by; truth "$1" neighbours neighbours
        truth "$1" mesh_paths mesh_paths)
    [ -z "$any" ] || {
        printf '[discover]\n%s\n' "$any"; text "$1" discover_plan plan
        text "$1" discover_every every; text "$1" discover_linger linger; number "$1" discover_most most
    }
    any=$(text "$1" libreqos devices; text "$1" libreqos_network network; text "$1" libreqos_plan plan)
    [ -z "$any" ] || printf '[libreqos]\n%s\n' "$any"
}

neighbour() {
    printf '[[neighbour]]\n'
    text "$1" name name; text "$1" rate rate; text "$1" capacity capacity; text "$1" mac mac
}

plan() {
    local quota
    printf '[plan.%s]\n' "$(quote "$1")"; rates "$1"
    quota=$(text "$1" quota bytes; text "$1" quota_per per; text "$1" quota_down down; text "$1" quota_up up)
    [ -z "$quota" ] || printf '[plan.%s.quota]\n%s\n' "$(quote "$1")" "$quota"
}

# Other rates or another weight of a plan by the clock.
window() {
    local plan
    config_get plan "$1" plan
    printf '[[plan.%s.during]]\n' "$(quote "$plan")"
    list "$1" day days; text "$1" from from; text "$1" to to; number "$1" weight weight
    text "$1" down down; text "$1" up up
}

subscriber() {
    printf '[[subscriber]]\n'
    text "$1" name name; list "$1" prefix prefixes; list "$1" mac macs
    text "$1" plan plan; number "$1" hops hops; rates "$1"
}

config_load fairmesh
for kind in gateway neighbour plan window subscriber; do config_foreach $kind $kind; done
