#!/usr/bin/env bash
# Builds mac80211_hwsim with the changes of patch.py for a Debian kernel, and prints the module's path.
#   build.sh SERIES    6.1 or 6.12, the kernel of image.sh
# Source and headers are Debian's packages, downloaded with the lists of image.sh, and unpacked, never installed.
# Ends with 3 where it cannot be built here (no compiler, no package), with 1 if it does not compile. Kept under
# ~/.cache/fairmesh/kernel, 1 MB for each kernel.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
say() { printf 'kernel hwsim: %s\n' "$*" >&2; }
cannot() { say "$*"; exit 3; }
fail() { say "$*"; exit 1; }
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

image=$("$here/../image.sh" "$1")
kernel=$(cat "$image/kernel")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairmesh/kernel
key=$(cat "$here/patch.py" "$0" | sha256sum | cut -c 1-12)
final=$cache/hwsim-$kernel-$key.ko
exec 9>"$cache/lock"
flock 9
if [ -s "$final" ]; then echo "$final"; exit 0; fi
# Debian's kernels are built by gcc-12; a newer one does, too.
cc=$(command -v gcc-12 || command -v gcc) || cannot "no gcc here"
for tool in make apt-get dpkg-deb xz; do
    command -v $tool >/dev/null || cannot "no $tool here"
done
[ -s "$cache/apt/apt.conf" ] || cannot "the lists of image.sh are gone: remove $image"

work=$cache/making.hwsim.$kernel.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{debs,headers,module}
apt() { (cd "$work/debs" && APT_CONFIG=$cache/apt/apt.conf timeout 900 "$@") >>"$work/log" 2>&1; }
series=$1
needed=$(APT_CONFIG=$cache/apt/apt.conf apt-cache depends "linux-headers-$kernel" 2>>"$work/log" \
    | sed -n 's/.*Depends: \(linux-\(headers\|kbuild\)-[^ ]*\)$/\1/p')
# shellcheck disable=SC2086 # one word per package
apt apt-get download "linux-headers-$kernel" $needed "linux-source-$series" \
    || { tail -n 3 "$work/log" >&2; cannot "cannot fetch headers and source of $kernel"; }
for deb in "$work"/debs/linux-{headers,kbuild}-*.deb; do
    dpkg-deb --extract "$deb" "$work/headers" || fail "${deb##*/} is broken"
done
# The packages name each other by the paths of an installation.
sed -i "s| /usr/src/| $work/headers/usr/src/|; s|=/usr/src/|=$work/headers/usr/src/|" \
    "$work/headers/usr/src/linux-headers-$kernel/Makefile"
dpkg-deb --fsys-tarfile "$work"/debs/linux-source-*.deb | tar -xO "./usr/src/linux-source-$series.tar.xz" \
    | tar -xJ -C "$work/module" --wildcards '*/drivers/net/wireless/*mac80211_hwsim.[ch]' || fail "no driver in the source"
find "$work/module" -name 'mac80211_hwsim.[ch]' -exec mv {} "$work/module/" \;
"$here/patch.py" "$work/module/mac80211_hwsim.c" || fail "patch.py does not fit the source of $kernel"
echo 'obj-m := mac80211_hwsim.o' > "$work/module/Kbuild"
# Without BTF, for which the kernel's own image would be needed.
make -C "$work/headers/usr/src/linux-headers-$kernel" M="$work/module" CC="$cc" CONFIG_DEBUG_INFO_BTF_MODULES= modules >"$work/make.log" 2>&1 \
    || { tail -n 20 "$work/make.log" >&2; fail "the driver does not compile for $kernel"; }
strip -g -o "$work/module.ko" "$work/module/mac80211_hwsim.ko"
rm -f "$cache"/hwsim-"$kernel"-*.ko
mv "$work/module.ko" "$final"
say "made $final"
echo "$final"
