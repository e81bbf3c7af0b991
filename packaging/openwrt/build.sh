#!/usr/bin/env bash
# Builds two ipk files (opkg, OpenWrt up to 24.10): the gateway-only build, and its pages in LuCI.
#   packaging/openwrt/build.sh BINARY FOLDER [ARCHITECTURE]
# Prints their paths, the daemon's first.
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
ln -s fairmesh-gateway "$root/data/usr/bin/fairmesh-node"
for program in fairmesh-gateway fairmesh-node; do
    install -Dm755 "$files/$program.init" "$root/data/etc/init.d/$program"
done
install -Dm600 $files/fairmesh.config "$root/data/etc/config/fairmesh"
install -Dm755 $files/uci-to-toml.sh "$root/data/usr/lib/fairmesh/uci-to-toml.sh"
install -Dm755 $files/rpcd.sh "$root/data/usr/libexec/rpcd/fairmesh"

mkdir -p "$root/data/usr/share/doc/fairmesh-gateway"
scripts/notices.py fairmesh-agent | gzip -9n > "$root/data/usr/share/doc/fairmesh-gateway/NOTICES.gz"

# Default folder of the commands.
mkdir -p "$root/data/etc/fairmesh"
ln -s /var/run/fairmesh/gateway.toml "$root/data/etc/fairmesh/gateway.toml"

# The key of several gateways and the page's token survive an upgrade of the system.
mkdir -p "$root/data/lib/upgrade/keep.d"
echo /etc/fairmesh/peers.key > "$root/data/lib/upgrade/keep.d/fairmesh-gateway"
printf '/etc/fairmesh/node.toml\n/etc/fairmesh/node.key\n' >> "$root/data/lib/upgrade/keep.d/fairmesh-gateway"
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
printf '#!/bin/sh\n[ -n "${IPKG_INSTROOT}" ] || { /etc/init.d/fairmesh-gateway enable; /etc/init.d/fairmesh-node enable; }\nexit 0\n' > "$root/control/postinst"
printf '#!/bin/sh\n[ -n "${IPKG_INSTROOT}" ] || { for s in fairmesh-gateway fairmesh-node; do /etc/init.d/$s disable; /etc/init.d/$s stop; done; [ ! -e /etc/fairmesh/node.toml ] || /usr/bin/fairmesh-node reset; /usr/bin/fairmesh-gateway reset --fall-back --config /var/run/fairmesh/gateway.toml; } > /dev/null 2>&1\nexit 0\n' > "$root/control/prerm"
chmod 755 "$root/control/postinst" "$root/control/prerm"

pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$1" -czf "$2" "${@:3}"; }
# Packs $1/control and $1/data into the file $2.
ipk() {
    echo 2.0 > "$1/debian-binary"
    pack "$1/control" "$1/control.tar.gz" .
    pack "$1/data" "$1/data.tar.gz" .
    pack "$1" "$2" ./debian-binary ./control.tar.gz ./data.tar.gz
    echo "$2"
}

mkdir -p "$out"
ipk "$root" "$out/fairmesh-gateway_${version}_$arch.ipk"

luci=$root/luci
source=packaging/openwrt/luci
for view in homes configuration; do
    install -Dm644 "$source/view/$view.js" "$luci/data/www/luci-static/resources/view/fairmesh/$view.js"
done
install -Dm644 "$source/menu.json" "$luci/data/usr/share/luci/menu.d/luci-app-fairmesh.json"
install -Dm644 "$source/acl.json" "$luci/data/usr/share/rpcd/acl.d/luci-app-fairmesh.json"
mkdir -p "$luci/control"
cat > "$luci/control/control" <<EOF
Package: luci-app-fairmesh
Version: $version
Architecture: all
Depends: fairmesh-gateway, luci-base
Section: luci
Installed-Size: $(du -sb "$luci/data" | cut -f1)
Description: LuCI pages of fairmesh-gateway: homes with overrides, and the configuration.
EOF
# rpcd reads new methods and rights only at its start.
printf '#!/bin/sh\n[ -n "${IPKG_INSTROOT}" ] || { rm -rf /tmp/luci-indexcache* /tmp/luci-modulecache; /etc/init.d/rpcd restart; } > /dev/null 2>&1\nexit 0\n' > "$luci/control/postinst"
chmod 755 "$luci/control/postinst"
ipk "$luci" "$out/luci-app-fairmesh_${version}_all.ipk"
