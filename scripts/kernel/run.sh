#!/usr/bin/env bash
# Runs a program as root in a fresh virtual machine with a stock Debian kernel, and returns its output and exit
# status. Neither hardware virtualisation nor root is needed.
#   run.sh [-k SERIES] [-s FOLDER] [-o FOLDER] [-t SECONDS] [-m MiB] [-i SHIFT] [-v] PROGRAM [ARGUMENT...]
#     -k  kernel series: 6.1 (default) or 6.12
#     -s  a folder of this machine, copied there to /host, the working directory;
#         by default the one that PROGRAM lies in. PROGRAM is within it.
#     -o  a folder of this machine, to which /out is copied at the end; the kernel's console ends up in it, too
#     -t  of this machine's time, after which the machine is taken for stuck; default 1200
#     -m  memory, default 1024
#     -i  2^SHIFT ns of the machine's time pass with each instruction, default 0
#     -v  the kernel's console to standard error
# Time in the machine is counted in instructions, and idle time is skipped, so that load of this computer causes no
# delay in the machine. It has one processor and no network to the outside.
# Programs in the machine: iproute2, nftables, iw, batctl, babeld, dnsmasq, udhcpc, iperf3, tcpdump, jq, Python; see
# image.sh.
# Exit status: the program's; 3: no machine is possible here; 124: timeout; 125: the machine crashed.
set -euo pipefail
self=$(readlink -f "$0")
say() { printf 'kernel run: %s\n' "$*" >&2; }
usage() { sed -n '2,/^set -/s/^# \{0,1\}//p' "$self" >&2; exit 2; }

series=6.1 share='' out='' limit=1200 memory=1024 shift=0 verbose=''
while getopts k:s:o:t:m:i:v option; do
    case $option in
    k) series=$OPTARG ;; s) share=$OPTARG ;; o) out=$OPTARG ;; t) limit=$OPTARG ;;
    m) memory=$OPTARG ;; i) shift=$OPTARG ;; v) verbose=yes ;; *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
program=$(readlink -e "$1") || { say "$1: no such file"; exit 2; }
shift 1
share=$(readlink -e "${share:-$(dirname "$program")}") || { say "no folder to share"; exit 2; }
case $program in
"$share"/*) program=/host/${program#"$share"/} ;;
*) say "$program is not in $share"; exit 2 ;;
esac

command -v qemu-system-x86_64 >/dev/null || { say "no qemu-system-x86_64 here"; exit 3; }
image=$("$(dirname "$self")/image.sh" "$series")

if [ -z "$out" ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"
out=$(readlink -e "$out")
rm -f "$out/.status"
printf '%s\0' "$program" "$@" > "$out/.job"
console=$out/console
[ -z "$verbose" ] || console=/dev/stderr

code=0
# QEMU needs a file, and stdout may be of any type.
exec 3> >(cat)
reader=$!
# Without fast strings the kernel clears and copies pages by words instead of bytes: it boots in 13 s,
# not in 18.
# Without random addresses (norandmaps), code that QEMU has translated for a program serves its next start, too.
# The machine waits for no event of this computer's threads (ioeventfd): see image.sh.
timeout --foreground --kill-after 5 "$limit" qemu-system-x86_64 \
    -machine q35 -cpu max,la57=off,erms=off,fsrm=off -accel tcg,thread=single,tb-size=256 -icount "shift=$shift,sleep=off" \
    -smp 1 -m "$memory" -nodefaults -no-user-config -no-reboot -display none -nic none \
    -kernel "$image/vmlinux" -initrd "$image/initrd" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr norandmaps mitigations=off tsc=reliable no_timer_check random.trust_cpu=on net.ifnames=0" \
    -serial "file:$console" \
    -device virtio-serial-pci,ioeventfd=off -chardev file,id=report,path=/dev/fd/3,append=on -device virtserialport,chardev=report,name=report \
    -virtfs "local,path=$share,mount_tag=host,security_model=none,readonly=on,multidevs=remap" \
    -virtfs "local,path=$out,mount_tag=out,security_model=none,multidevs=remap" \
    </dev/null || code=$?
exec 3>&-
wait "$reader"
if [ -s "$out/.status" ]; then
    exit "$(cat "$out/.status")"
fi
[ -n "$verbose" ] || tail -n 40 "$console" >&2
if [ "$code" = 124 ] || [ "$code" = 137 ]; then
    say "stuck after $limit s"
    exit 124
fi
say "the machine ended without a status (QEMU: $code)"
exit 125
