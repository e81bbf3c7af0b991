#!/bin/bash
# Installs the Debian package beside this script, in the virtual machine, and runs every test program on it.
#   inside.sh [FILTER...]
cd "$(dirname "$0")" || exit 1
echo "kernel: $(uname -r)"
# The image has files of packages and no record of them, so that dpkg knows no dependency as installed.
mkdir -p /var/lib/dpkg/{info,updates}
touch /var/lib/dpkg/status
dpkg --install --force-depends,bad-path,unsafe-io ./debian/*.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }
export FAIRMESH_GATEWAY=/usr/bin/fairmesh-gateway FAIRMESH_NO_SKIP=1 FAIRMESH_VM=1 RUST_BACKTRACE=0
. ./environment
# As in a distribution: the device exists and loads its module.
modprobe tun
# Tests with thousands of items or minutes of emulation run on this computer's own kernel in `make test`.
[ $# -gt 0 ] || set -- --skip killed_fifty_times --skip a_hundred_reloads --skip whoever_is_killed --skip ten_thousand \
    --skip pfrc_makes --skip made_up_addresses_share --skip a_hundred_thousand --skip relayouts_under_load --skip killed_with_its_guard --skip taken_over_again \
    --skip the_three_hop_upload --skip the_middle_of_the_stack --skip udp_saturates_three
for name in $skip; do set -- "$@" --skip "$name"; done
# On 6.12 alone: figures of the medium, because 6.1 has no intermediate queues in hwsim; and the daemon's files,
# commands and messages, which do not depend on the kernel.
case $(uname -r) in
6.1.*) set -- "$@" --skip a_lone_link --skip hidden_stations_share --skip aggregates_reach --skip uploads_of_a --skip gap_frees --skip gap_receives --skip lbm_at --skip cna_makes --skip mesh_maxmin_makes \
    --skip a_wrong_configuration_changes --skip calls_by_ubus_reach --skip overrides_survive --skip a_history_on_a_full_disk \
    --skip disks_that_do_not_write --skip a_hung_nft_stops --skip a_running_daemon_responds --skip slow_readers_of \
    --skip special_files_in --skip hostile_daemons_are_named --skip peers:: ;;
esac
wrong=0
# Seconds of processor time: the cost of a run, because idle time is skipped.
busy() { awk '{printf "%.0f", $1 - $2}' /proc/uptime; }
for program in ./test-*; do
    echo "== ${program#./test-} at $(cut -d ' ' -f 1 /proc/uptime), $(busy) s busy"
    ./lib/ld.so --library-path ./lib "$program" --test-threads=1 --include-ignored "$@" || wrong=1
done
# A warning of the kernel is a failure, for any cause.
if dmesg | grep -E 'BUG:|WARNING:|Call Trace|general protection' ; then
    dmesg | tail -n 60
    wrong=1
fi
echo "guest seconds: $(cut -d . -f 1 /proc/uptime), $(busy) of them busy"
exit $wrong
