#!/usr/bin/env bash
# Builds an ipk (opkg, OpenWrt up to 24.10) of the gateway-only build.
#   packaging/openwrt/build.sh BINARY FOLDER [ARCHITECTURE]
# The binary is static, so it runs under any OpenWrt of its processor; `opkg print-architecture`
# on the router names the architectures that it takes, such as aarch64_cortex-a53.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=${1:?the static binary}
out=${2:?the folder for the package}
arch=${IPK_ARCH:-${3:-$(uname -m)}}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
files=packaging/openwrt/files
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

install -Dm755 "$binary" "$root/data/usr/bin/fairmesh-gateway"
install -Dm755 $files/fairmesh-gateway.init "$root/data/etc/init.d/fairmesh-gateway"
install -Dm600 $files/fairmesh.config "$root/data/etc/config/fairmesh"
install -Dm755 $files/uci-to-toml.sh "$root/data/usr/lib/fairmesh/uci-to-toml.sh"

mkdir -p "$root/data/usr/share/doc/fairmesh-gateway"
scripts/notices.py fairmesh-agent | gzip -9n > "$root/data/usr/share/doc/fairmesh-gateway/NOTICES.gz"

# Default folder of the commands.
mkdir -p "$root/data/etc/fairmesh"
ln -s /var/run/fairmesh/gateway.toml "$root/data/etc/fairmesh/gateway.toml"

# The key of several gateways and the page's token survive an upgrade of the system.
mkdir -p "$root/data/lib/upgrade/keep.d"
echo /etc/fairmesh/peers.key > "$root/data/lib/upgrade/keep.d/fairmesh-gateway"
echo /etc/fairmesh/page.token >> "$root/data/lib/upgrade/keep.d/fairmesh-gateway"

mkdir -p "$root/control"
echo /etc/config/fairmesh > "$root/control/conffiles"
cat > "$root/control/control" <<EOF
Package: fairmesh-gateway
Version: $version
Architecture: $arch
Depends: nftables, ip-full, kmod-sched-core, kmod-nft-core, kmod-nft-netdev
Section: net
Installed-Size: $(du -sb "$root/data" | cut -f1)
Description: fair shares at the gateway of a Wi-Fi mesh. As installed it is off.
EOF
# The service is enabled as on any install; the option in /etc/config/fairmesh keeps it from running.
printf '#!/bin/sh\n[ -n "${IPKG_INSTROOT}" ] || /etc/init.d/fairmesh-gateway enable\nexit 0\n' > "$root/control/postinst"
printf '#!/bin/sh\n[ -n "${IPKG_INSTROOT}" ] || { /etc/init.d/fairmesh-gateway disable; /etc/init.d/fairmesh-gateway stop; /usr/bin/fairmesh-gateway reset --fall-back --config /var/run/fairmesh/gateway.toml; } > /dev/null 2>&1\nexit 0\n' > "$root/control/prerm"
chmod 755 "$root/control/postinst" "$root/control/prerm"
echo 2.0 > "$root/debian-binary"

pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$1" -czf "$2" "${@:3}"; }
pack "$root/control" "$root/control.tar.gz" .
pack "$root/data" "$root/data.tar.gz" .
mkdir -p "$out"
package="$out/fairmesh-gateway_${version}_$arch.ipk"
pack "$root" "$package" ./debian-binary ./control.tar.gz ./data.tar.gz
echo "$package"
