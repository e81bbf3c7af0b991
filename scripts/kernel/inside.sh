#!/bin/bash
# In the virtual machine: runs every test program that lies beside this, with what is shipped.
#   inside.sh [FILTER...]
cd "$(dirname "$0")" || exit 1
echo "kernel: $(uname -r)"
export FAIRMESH_GATEWAY=/host/fairmesh-gateway FAIRMESH_NO_SKIP=1 FAIRMESH_VM=1 RUST_BACKTRACE=0
wrong=0
for program in ./test-*; do
    echo "== ${program#./test-} at $(cut -d ' ' -f 1 /proc/uptime)"
    "$program" --test-threads=1 --include-ignored "$@" || wrong=1
done
# A kernel that complains is a finding, whoever caused it.
if dmesg | grep -E 'BUG:|WARNING:|Call Trace|general protection' ; then
    dmesg | tail -n 60
    wrong=1
fi
echo "guest seconds: $(cut -d . -f 1 /proc/uptime)"
exit $wrong
