#!/usr/bin/env bash
# Tests of what meets the kernel, on Debian's stock kernels: the shipped static daemon and the test
# programs, in a virtual machine for each kernel, both at once.
#   test.sh [-k SERIES] [FILTER...]    by default 6.1 and 6.12; FILTER as of cargo test
# What each machine printed stays in target/kernel/SERIES.log. Where no machine can be had it is skipped
# with a line; with FAIRMESH_NO_SKIP set, that is a failure where this machine could have one.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
dir=${CARGO_TARGET_DIR:-target}
target=x86_64-unknown-linux-musl
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
    [ "$code" != 3 ] || skip "Linux $kernel: no image can be made here"
    [ "$code" = 0 ] || fail "no image for Linux $kernel"
done

binary=$(CARGO=$cargo scripts/gateway.sh $target)
stage=$dir/kernel/stage
rm -rf "$stage"
mkdir -p "$stage"
cp "$binary" "$stage/"
cp scripts/kernel/inside.sh "$stage/"
"$cargo" test --quiet --locked --no-run --message-format=json --target $target -p fairmesh-linux -p fairmesh-agent \
    --test classifier --test plane --test rates --test gateway --test kernel > "$dir/kernel/built.json" || fail "the tests do not build"
sed -n 's/.*"executable":"\([^"]*\/deps\/\([a-z]*\)-[0-9a-f]*\)".*/\1 \2/p' "$dir/kernel/built.json" | while read -r path name; do
    cp "$path" "$stage/test-$name"
done

pids=()
for kernel in "${kernels[@]}"; do
    out=$dir/kernel/$kernel
    rm -rf "$out"
    mkdir -p "$out"
    scripts/kernel/run.sh -k "$kernel" -s "$stage" -o "$out" -t "${FAIRMESH_KERNEL_PATIENCE:-3600}" "$stage/inside.sh" "$@" \
        > "$dir/kernel/$kernel.log" 2>&1 &
    pids+=($!)
done
wrong=0
for at in "${!kernels[@]}"; do
    kernel=${kernels[$at]}
    log=$dir/kernel/$kernel.log
    code=0
    wait "${pids[$at]}" || code=$?
    sum=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' "$log" | awk '{p += $1; f += $2} END {print p + 0, f + 0}')
    say "Linux $(grep -m 1 '^kernel: ' "$log" | cut -d ' ' -f 2): ${sum% *} passed, ${sum#* } failed, $(sed -n 's/^guest seconds: //p' "$log") s of its time"
    grep '^SKIPPED' "$log" | sort -u || true
    if [ "$code" != 0 ]; then
        wrong=1
        sed -n '/^failures:$/,/^test result/p' "$log"
        [ "$code" = 1 ] || tail -n 20 "$log"
        say "Linux $kernel ended with $code; all of it is in $log"
    fi
done
exit $wrong
