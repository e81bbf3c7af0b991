#!/usr/bin/env bash
# Tests of the kernel's interfaces on Debian's stock kernels: the Debian package and the test programs, in a virtual
# machine for each kernel, both concurrently.
#   test.sh [-k SERIES] [FILTER...]    by default 6.1 and 6.12; FILTER as of cargo test
# FAIRMESH_KERNEL_PROGRAMS: test programs, separated by |, instead of all. FAIRMESH_MEDIUM_SECONDS: length of the
# medium's measurements, s, by default 4. FAIRMESH_MEDIUM_RUNS: runs of each mechanism, by default 1.
# FAIRMESH_KERNEL_SKIP: further tests to leave out.
# FAIRMESH_KERNEL_BUILT, FAIRMESH_KERNEL_RELEASE: packages of the builds that exist, of tests and of the simulator.
# The output of each machine is in target/kernel/SERIES.log. If no machine is possible, the test is skipped with a
# line; with FAIRMESH_NO_SKIP set, that is a failure if this machine could run one.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
dir=${CARGO_TARGET_DIR:-target}
say() { printf 'test-kernel: %s\n' "$*"; }
fail() { printf 'test-kernel: %s\n' "$*" >&2; exit 1; }
able=
[ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null && able=yes
skip() {
    if [ -n "$able" ] && [ -n "${FAIRMESH_NO_SKIP:-}" ]; then fail "$*, and nothing may be skipped here"; fi
    say "SKIPPED: $*"
    exit 0
}

kernels=(6.1 6.12)
if [ "${1:-}" = -k ]; then
    kernels=("${2:?test-kernel: -k needs a kernel series}")
    shift 2
fi
[ -n "$able" ] || skip "Debian's kernels: made for x86_64 machines with apt"
command -v qemu-system-x86_64 >/dev/null || skip "Debian's kernels: no qemu-system-x86_64 (scripts/setup.sh test installs it)"
for kernel in "${kernels[@]}"; do
    code=0
    scripts/kernel/image.sh "$kernel" >/dev/null || code=$?
    # No mirror, or none with this kernel: not a failure of this machine.
    [ "$code" != 3 ] || { able=; skip "Linux $kernel: no image can be made here, see above"; }
    [ "$code" = 0 ] || fail "no image for Linux $kernel"
done

binary=$(CARGO=$cargo scripts/gateway.sh x86_64-unknown-linux-musl)
stage=$dir/kernel/stage
rm -rf "$stage"
mkdir -p "$stage/lib"
DEB_ARCH=amd64 CARGO=$cargo packaging/deb/build.sh "$binary" "$stage/debian" >/dev/null || fail "the Debian package does not build"
cp scripts/kernel/inside.sh "$stage/"
printf 'export FAIRMESH_MEDIUM_SECONDS=%q FAIRMESH_MEDIUM_RUNS=%q\nskip=%q\n' "${FAIRMESH_MEDIUM_SECONDS:-4}" "${FAIRMESH_MEDIUM_RUNS:-1}" "${FAIRMESH_KERNEL_SKIP:-}" > "$stage/environment"
programs=${FAIRMESH_KERNEL_PROGRAMS:-'classifier|conformance|plane|groups|rates|marks|flows|edt|next_hops|radio|minstrel|gateway|kernel|system|root|medium'}
# Drivers of the medium; other tests do not need them. No mirror, or none with this source: not a failure of this
# machine, as above.
for kernel in "${kernels[@]}"; do
    code=0
    driver=$(scripts/kernel/hwsim/build.sh "$kernel") || code=$?
    case $code in
    0) cp "$driver" "$stage/hwsim-$kernel.ko" ;;
    3)
        say "SKIPPED: tests of the medium: no driver can be made here, see above"
        programs=${programs/|medium/}
        ;;
    *) fail "no driver for the medium on Linux $kernel" ;;
    esac
done
# The medium is the release build, because instructions are the machine's time.
read -r -a medium <<< "${FAIRMESH_KERNEL_RELEASE:--p fairmesh}"
"$cargo" build --release --quiet --locked "${medium[@]}" || fail "the simulator does not build"
strip -o "$stage/fairmesh" "$dir/release/fairmesh"
ldd "$stage/fairmesh" | sed -nE 's/.*(=> |^\s*)(\/[^ ]*) \(0x.*/\2/p' | xargs -r cp -L -t "$stage/lib"
# The test programs with this machine's libraries, because those of the image may be older.
# `make test` has built the whole workspace, so nothing is built again.
read -r -a what <<< "${FAIRMESH_KERNEL_BUILT:--p fairmesh-linux -p fairmesh-agent -p fairmesh-emulator}"
"$cargo" test --quiet --locked --no-run --message-format=json "${what[@]}" > "$dir/kernel/built.json" || fail "the tests do not build"
sed -nE 's/.*"executable":"([^"]*\/deps\/('"$programs"')-[0-9a-f]*)".*/\1 \2/p' "$dir/kernel/built.json" | while read -r path name; do
    # A backtrace needs names, not lines; the machine has little memory.
    objcopy --strip-debug "$path" "$stage/test-$name"
    ldd "$path" | sed -nE 's/.*(=> |^\s*)(\/[^ ]*) \(0x.*/\2/p' | xargs -r cp -L -t "$stage/lib"
done
mv "$stage"/lib/ld-linux-*.so.* "$stage/lib/ld.so"
[ "$(find "$stage" -name 'test-*' | wc -l)" = "$(tr '|' '\n' <<< "$programs" | wc -l)" ] || fail "not all of $programs were built"

pids=()
for kernel in "${kernels[@]}"; do
    out=$dir/kernel/$kernel
    rm -rf "$out"
    mkdir -p "$out"
    # Lines begin with the seconds of this machine.
    scripts/kernel/run.sh -k "$kernel" -s "$stage" -o "$out" -t "${FAIRMESH_KERNEL_PATIENCE:-3600}" "$stage/inside.sh" "$@" 2>&1 \
        | while IFS= read -r line; do printf '%4d %s\n' "$SECONDS" "$line"; done > "$dir/kernel/$kernel.log" &
    pids+=($!)
done
wrong=0
for at in "${!kernels[@]}"; do
    kernel=${kernels[$at]}
    log=$dir/kernel/$kernel.log
    code=0
    wait "${pids[$at]}" || code=$?
    sum=$(sed -nE 's/^ *[0-9]+ test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$log" | awk '{p += $1; f += $2} END {print p + 0, f + 0}')
    say "Linux $(sed -nE 's/^ *[0-9]+ kernel: //p' "$log"): ${sum% *} passed, ${sum#* } failed, $(sed -nE 's/^ *[0-9]+ guest seconds: ([0-9]+), ([0-9]+) .*/\1 s of its time, \2 of them busy/p' "$log")"
    sed -nE 's/^ *[0-9]+ (SKIPPED.*)/\1/p' "$log" | sort -u
    if [ "$code" != 0 ] || [ "${sum% *}" = 0 ]; then
        wrong=1
        sed -nE 's/^ *[0-9]+ //; /^failures:$/,/^test result/p' "$log"
        [ "$code" = 1 ] || tail -n 20 "$log"
        say "Linux $kernel ended with $code; all of it is in $log"
    fi
done
exit $wrong
