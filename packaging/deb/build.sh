#!/usr/bin/env bash
# Builds a Debian package of the gateway-only build.
#   packaging/deb/build.sh BINARY FOLDER
# The binary is static, so one package serves every Debian of its architecture.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=${1:?the static binary}
out=${2:?the folder for the package}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=${DEB_ARCH:-$(dpkg --print-architecture)}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

install -Dm755 "$binary" "$root/usr/bin/fairmesh-gateway"
ln -s fairmesh-gateway "$root/usr/bin/fairmesh-node"
for unit in fairmesh-gateway fairmesh-gateway-reset fairmesh-node; do
    install -Dm644 "packaging/systemd/$unit.service" "$root/lib/systemd/system/$unit.service"
done
install -Dm644 packaging/examples/gateway.toml "$root/usr/share/doc/fairmesh-gateway/examples/gateway.toml"
install -Dm644 packaging/examples/node.toml "$root/usr/share/doc/fairmesh-gateway/examples/node.toml"
install -Dm644 packaging/systemd/peers.conf "$root/usr/share/doc/fairmesh-gateway/examples/peers.conf"
install -Dm644 packaging/systemd/agents.conf "$root/usr/share/doc/fairmesh-gateway/examples/agents.conf"
install -Dm644 packaging/systemd/page.conf "$root/usr/share/doc/fairmesh-gateway/examples/page.conf"
install -Dm644 packaging/systemd/signs.conf "$root/usr/share/doc/fairmesh-gateway/examples/signs.conf"
for page in docs/gateway*.md docs/node.md docs/security.md; do
    install -Dm644 "$page" "$root/usr/share/doc/fairmesh-gateway/${page##*/}"
done
# Man pages and completions are generated from the arguments of the same source, built for this machine.
manual=$(mktemp -d)
trap 'rm -rf "$root" "$manual"' EXIT
# With the features of the whole workspace, as in the build of the tests, which is then taken.
"${CARGO:-cargo}" build --quiet --locked --profile test --workspace --example gateway-manual --example node-manual >&2
for program in gateway-manual node-manual; do "${CARGO_TARGET_DIR:-target}/debug/examples/$program" "$manual" >&2; done
for page in "$manual"/man1/*; do
    gzip -9n "$page"
    install -Dm644 "$page.gz" "$root/usr/share/man/man1/${page##*/}.gz"
done
for program in fairmesh-gateway fairmesh-node; do
    install -Dm644 "$manual/completions/$program.bash" "$root/usr/share/bash-completion/completions/$program"
    install -Dm644 "$manual/completions/_$program" "$root/usr/share/zsh/vendor-completions/_$program"
    install -Dm644 "$manual/completions/$program.fish" "$root/usr/share/fish/vendor_completions.d/$program.fish"
done
install -Dm644 packaging/deb/copyright "$root/usr/share/doc/fairmesh-gateway/copyright"
scripts/notices.py fairmesh-agent | gzip -9n > "$root/usr/share/doc/fairmesh-gateway/NOTICES.gz"
# The example only observes, so an installation sets no limits.
install -Dm644 packaging/examples/gateway.toml "$root/etc/fairmesh/gateway.toml"
install -dm755 "$root/DEBIAN"
echo /etc/fairmesh/gateway.toml > "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m755 "packaging/deb/$script" "$root/DEBIAN/$script"
done
size=$(du -sk "$root" | cut -f1)
cat > "$root/DEBIAN/control" <<EOF
Package: fairmesh-gateway
Version: $version
Architecture: $arch
Maintainer: The fairmesh developers <fairmesh@users.noreply.github.com>
Installed-Size: $size
Depends: nftables, iproute2
Recommends: tzdata
Section: net
Priority: optional
Homepage: https://github.com/fairmesh/fairmesh
Description: fair shares at the gateway of a Wi-Fi mesh
 A daemon for the box that joins a Wi-Fi mesh to the Internet. It measures what
 every subscriber gets, finds each one's fair rate by itself and limits it with
 HTB and nftables, with nothing changed on the subscribers' routers. As
 installed it only observes.
EOF
mkdir -p "$out"
package="$out/fairmesh-gateway_${version}_$arch.deb"
dpkg-deb --root-owner-group --build "$root" "$package" > /dev/null
echo "$package"
