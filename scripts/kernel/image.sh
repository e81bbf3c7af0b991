#!/usr/bin/env bash
# Makes what a virtual machine of run.sh boots, from Debian's packages, and prints the folder it
# lies in. What was made before is taken again.
#   image.sh SERIES    a kernel series of Debian 12: 6.1, or 6.12 (backports)
# Packages come from the Debian mirror that this machine's apt is set to; they are unpacked, never
# installed here, and root is not needed. FAIRMESH_DEBIAN_MIRROR names another mirror.
# Ends with 3 where an image cannot be had here (no tool, no mirror, no network), with 1 where making it
# went wrong. Kept under ~/.cache/fairmesh/kernel (XDG_CACHE_HOME), about 270 MB for each kernel.
set -euo pipefail
self=$(readlink -f "$0")
init=$(dirname "$self")/init.sh

# In the machine: a base, what the daemon calls or speaks with, what tests measure with.
packages=(
    base-files base-passwd bash coreutils findutils grep sed gawk procps psmisc util-linux mount kmod busybox-static
    ca-certificates python3-minimal libpython3-stdlib jq
    iproute2 iputils-ping nftables iptables ethtool bridge-utils conntrack
    iw wireless-regdb wpasupplicant hostapd batctl babeld dnsmasq-base udhcpc ppp pppoe systemd
    iperf3 tcpdump socat netcat-openbsd
)
# Modules, with all that they need: whole folders of the kernel's tree, or one.
modules=(
    net crypto lib arch/x86/crypto fs/9p fs/netfs fs/fscache fs/overlayfs drivers/virtio drivers/char/virtio_console drivers/char/hw_random
    drivers/net/veth drivers/net/ifb drivers/net/dummy drivers/net/tun drivers/net/macvlan drivers/net/vxlan
    drivers/net/ppp drivers/net/slip drivers/net/bonding drivers/net/wireguard drivers/net/virtio_net
    drivers/net/net_failover drivers/net/wireless/mac80211_hwsim drivers/net/wireless/virtual/mac80211_hwsim
)

say() { printf 'kernel image: %s\n' "$*" >&2; }
cannot() { say "$*"; exit 3; }
fail() { say "$*"; exit 1; }

[ $# = 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$self" >&2; exit 2; }
series=$1
case $series in 6.1 | 6.12) ;; *) fail "no kernel series \"$series\": expected 6.1 or 6.12" ;; esac
[ "$(uname -m)" = x86_64 ] || cannot "made for x86_64 machines only"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairmesh/kernel
# Another list of packages, another script: another image. Worktrees do not take each other's.
key=$(cat "$self" "$init" | sha256sum | cut -c 1-12)
# An image in the cache is complete: it is renamed into place as the last step.
found() { readlink -e "$cache/$series-$key" || return 1; }
done_with() { # done_with IMAGE: prints its path; `touch` marks it as used for the removal below
    touch "$1/used"
    echo "$1"
    exit 0
}
if image=$(found); then done_with "$image"; fi

for tool in apt-get apt-cache dpkg-deb tar xz zstd depmod flock; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || cannot "no $tool here"
done
PATH=$PATH:/usr/sbin:/sbin
mkdir -p "$cache"
# One process at a time; the next one finds the image of the first.
exec 9>"$cache/lock"
flock 9
if image=$(found); then done_with "$image"; fi

mirror=${FAIRMESH_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null \
    | sed -n 's/^Debian|Debian|//p' | head -n 1)}
[ -n "$mirror" ] || cannot "apt of this machine knows no Debian mirror (or was never updated)"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keys ] || cannot "no $keys to check packages with"

work=$cache/making.$series.$$
trap 'rm -rf "$work"' EXIT
# Of makers that were killed.
find "$cache" -maxdepth 1 -name 'making.*' -exec rm -rf {} +
mkdir -p "$work"/{root,kernel,image} "$cache"/apt/{lists/partial,archives/partial}

# apt with lists of its own and nothing installed: this machine's are neither read nor touched.
cat > "$cache/apt/sources.list" <<END
deb [signed-by=$keys] $mirror bookworm main
deb [signed-by=$keys] $mirror bookworm-updates main
deb [signed-by=$keys] $mirror bookworm-backports main
END
cat > "$cache/apt/apt.conf" <<END
Dir::State "$cache/apt";
Dir::State::status "/dev/null";
Dir::State::Lists "$cache/apt/lists";
Dir::Cache "$cache/apt";
Dir::Etc::SourceList "$cache/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Get::Assume-Yes "true";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
END
log=$work/log
apt() { APT_CONFIG=$cache/apt/apt.conf timeout 900 "$@" >>"$log" 2>&1; }
apt apt-get update -qq --error-on=any || { tail -n 3 "$log" >&2; cannot "the Debian mirror cannot be reached"; }

# The newest kernel of the series: what Debian's own metapackage asks for.
kernel=$(APT_CONFIG=$cache/apt/apt.conf apt-cache show linux-image-amd64 \
    | sed -n "s/^Depends: .*linux-image-\(${series/./\\.}\.[^ ,]*\).*/\1/p" | sort -V | tail -n 1)
[ -n "$kernel" ] || fail "the mirror has no kernel $series"
say "making one: kernel $kernel, ${#packages[@]} packages and what they need"

archives=$cache/apt/archives
# fetch FOLDER PACKAGE...: unpacks packages and what they need there. apt checks sums and signatures.
fetch() {
    local into=$1 name
    shift
    apt apt-get install --download-only --reinstall "$@" || { tail -n 5 "$log" >&2; fail "cannot fetch ${*: -1} and others"; }
    APT_CONFIG=$cache/apt/apt.conf apt-get install --print-uris --reinstall -qq -o Dir::Cache::archives="$work/none/" "$@" 2>>"$log" \
        | cut -d ' ' -f 2 > "$work/names"
    [ -s "$work/names" ] || fail "apt names no packages for $*"
    while read -r name; do
        [ -s "$archives/$name" ] || fail "apt fetched no $name"
        # Folders that are links today (/bin, /lib) stay links.
        dpkg-deb --fsys-tarfile "$archives/$name" | tar -x -C "$into" --no-same-owner --keep-directory-symlink \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' \
            || fail "$name is broken"
    done < "$work/names"
}
mkdir -p "$work/none/partial"

root=$work/root
mkdir -p "$root"/usr/{bin,sbin,lib,lib32,lib64,libx32} "$root"/{dev,proc,sys,tmp,run,host,out,root,mnt,var/lib}
for name in bin sbin lib lib32 lib64 libx32; do ln -s usr/$name "$root/$name"; done
fetch "$root" "${packages[@]}"
# What maintainer scripts would have done, as far as it is needed.
cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
echo '127.0.0.1 localhost' > "$root/etc/hosts"
for pair in sh:bash awk:gawk nc:nc.openbsd iptables:iptables-nft ip6tables:ip6tables-nft; do
    for folder in bin sbin; do
        if [ -e "$root/usr/$folder/${pair#*:}" ]; then ln -sf "${pair#*:}" "$root/usr/$folder/${pair%:*}"; fi
    done
done
# The regulatory database is an alternative of two, one signed by Debian.
for name in regulatory.db regulatory.db.p7s; do
    if [ -e "$root/lib/firmware/$name-debian" ]; then ln -sf $name-debian "$root/lib/firmware/$name"; fi
done
install -m 755 "$init" "$root/sbin/fairmesh-init"
ln -s sbin/fairmesh-init "$root/init"

# The kernel package alone: what it depends on makes boot files.
apt bash -c "cd '$archives' && apt-get download linux-image-$kernel" || { tail -n 5 "$log" >&2; fail "cannot fetch linux-image-$kernel"; }
package=$(find "$archives" -maxdepth 1 -name "linux-image-${kernel}_*.deb" | sort -V | tail -n 1)
dpkg-deb --extract "$package" "$work/kernel" || fail "${package##*/} is broken"

tree=$work/kernel/lib/modules/$kernel
into=$root/lib/modules/$kernel
mkdir -p "$into"
cp "$tree"/modules.{order,builtin,builtin.modinfo} "$into/"
for name in "${modules[@]}"; do
    for path in "$tree/kernel/$name" "$tree/kernel/$name".ko*; do
        [ -e "$path" ] || continue
        mkdir -p "$into/kernel/$(dirname "$name")"
        cp -r "$path" "$into/kernel/$(dirname "$name")/"
    done
done
# Unpacked here once rather than at each boot by an emulated processor.
find "$into" -name '*.ko.xz' -print0 | xargs -0 -r -P 2 -n 64 xz --decompress
depmod -b "$root" "$kernel"

# QEMU boots the bare kernel at once; unpacking it would cost the emulated processor seconds.
image=$work/image
packed=$work/kernel/boot/vmlinuz-$kernel
for kind in 'xz --decompress --single-stream:\xfd7zXZ\x00' 'zstd --decompress:\x28\xb5\x2f\xfd'; do
    while read -r at; do
        # The compressor complains about what follows its data; what counts is an ELF file.
        tail -c "+$((at + 1))" "$packed" | ${kind%%:*} --stdout --quiet 2>/dev/null > "$image/vmlinux" || true
        [ "$(head -c 4 "$image/vmlinux" | od -An -tx1 | tr -d ' ')" = 7f454c46 ] && break 2
    done < <(LC_ALL=C grep --text --only-matching --byte-offset --perl-regexp "${kind#*:}" "$packed" | LC_ALL=C cut -d : -f 1 || true)
    : > "$image/vmlinux"
done
[ -s "$image/vmlinux" ] || fail "linux-image-$kernel: no kernel in ${packed##*/}"

# The whole image is in the machine's memory: during a wait for a disk of this computer the guest's clock, which
# skips idle time, would run ahead.
(cd "$root" && find . | ./bin/busybox cpio -o -H newc 2>/dev/null) > "$image/initrd"
echo "$kernel" > "$image/kernel"
sort "$work/names" > "$image/packages"

# Remove images that were not used for a month.
find "$cache" -maxdepth 1 -type d -name '*-amd64-*' -exec sh -c '[ -n "$(find "$1/used" -mtime -30 2>/dev/null)" ] || rm -rf "$1"' sh {} \;
find "$cache" -maxdepth 1 -xtype l -delete
final=$cache/$kernel-$key
rm -rf "$final"
mv "$image" "$final"
touch "$final/used"
ln -sfn "${final##*/}" "$cache/$series-$key"
say "made $final"
echo "$final"
