#!/usr/bin/env bash
# Files of a release, in target/dist (docs/packaging.md#release).
#   dist.sh build [WHEEL_TARGET...]   builds them; wheels for this machine and for the targets
#   dist.sh check                     checks them
#   dist.sh test                      both, with the wheel of this machine; a line instead where a tool is missing,
#                                     which is a failure with FAIRMESH_NO_SKIP set
# Archives of the same commit and the same programs are equal byte by byte: times are those of the commit
# (SOURCE_DATE_EPOCH), names are sorted. Status 1 if a part cannot be made, except for routers with a toolchain
# that cannot be fetched: these are named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${CARGO_TARGET_DIR:-target}
out=$dir/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
mapfile -t routers < <(scripts/gateway.sh --list)

say() { printf 'dist: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

missing() { # missing PROGRAM...: prints those that are not there
    for program in "$@"; do command -v "$program" >/dev/null || printf '%s ' "$program"; done
}

case ${1:-} in
build) shift ;;
test)
    lacking=$(missing cargo-cyclonedx dpkg-deb)
    if [ -n "$lacking" ] && [ -z "${FAIRMESH_NO_SKIP:-}" ]; then
        say "SKIPPED: no $lacking"
        exit 0
    fi
    scripts/dist.sh build
    scripts/dist.sh check
    # The check fails without a crate in a bill, with a changed file, and without a file that the container copies.
    changed=$(mktemp -d)
    trap 'rm -rf "$changed"' EXIT
    cp -r "$out/." "$changed"
    sed -i 's/"name": "netlink-sys"/"name": "netlink-other"/' "$changed/fairmesh-gateway-$version.cdx.json"
    rm "$changed/fairmesh-gateway_${version}_amd64.deb"
    if PYTHONDONTWRITEBYTECODE=1 python3 scripts/dist/check.py "$changed" "$version" 2> "$changed/problems"; then fail "the check accepts changed files"; fi
    for problem in 'SHA256SUMS: lists' 'cdx.json: SHA-256' 'has no component netlink-sys' 'Containerfile: COPY .*: no fairmesh-gateway_.*_amd64'; do
        grep -q "$problem" "$changed/problems" || fail "the check does not report '$problem': $(cat "$changed/problems")"
    done
    exit 0
    ;;
check) PYTHONDONTWRITEBYTECODE=1 exec python3 scripts/dist/check.py "$out" "$version" ;;
*) fail "${1:-no command}; expected build [WHEEL_TARGET...], check or test" ;;
esac

git rev-parse --verify --quiet HEAD >/dev/null || fail "no git repository; expected a clone, since the source archive is made by git"
[ -z "$(git status --porcelain)" ] || say "the tree has changes that are not committed; the source archive is of the last commit"
lacking=$(missing cargo-cyclonedx dpkg-deb)
[ -z "$lacking" ] || fail "missing: $lacking; run scripts/setup.sh dependencies"
for page in fairmesh fairmesh-gateway fairmesh-node; do
    [ -f "$dir/manual/man1/$page.1" ] || fail "no $dir/manual/man1/$page.1; run make manual"
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

pack() { # pack ARCHIVE FOLDER NAME: the folder NAME in FOLDER
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w --mtime="@$SOURCE_DATE_EPOCH" -C "$2" -cf - "$3" | gzip -9n > "$out/$1"
}

# Source. The modification time of git's archive is that of the commit.
git archive --format=tar --prefix="fairmesh-$version/" HEAD > "$work/source.tar"
gzip -9n < "$work/source.tar" > "$out/fairmesh-$version-source.tar.gz"

# Bills of material. The tool writes beside every Cargo.toml, therefore in a copy of the source.
tar -xf "$work/source.tar" -C "$work"
(cd "$work/fairmesh-$version" && cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target "${routers[0]}" --override-filename bom)
for package in agent:fairmesh-gateway cli:fairmesh python:fairmesh-python; do
    source=$work/fairmesh-$version
    scripts/dist/bill.py "$source/crates/${package%:*}/bom.json" "$source" > "$out/${package#*:}-$version.cdx.json"
done

# Notices of the linked crates; the packages have their own copies.
scripts/notices.py fairmesh-agent fairmesh-python > "$out/fairmesh-$version-notices.txt"

# Manual of all programs: `make manual`.
mkdir "$work/fairmesh-$version-manual"
cp -r "$dir/manual/." "$work/fairmesh-$version-manual"
pack "fairmesh-$version-manual.tar.gz" "$work" "fairmesh-$version-manual"

# The daemon: an archive for any Linux, packages for Debian and OpenWrt.
for target in "${routers[@]}"; do
    code=0
    binary=$(scripts/gateway.sh "$target") || code=$?
    if [ "$code" = 3 ]; then
        say "LEFT OUT: $target: its toolchain cannot be fetched"
        continue
    fi
    [ "$code" = 0 ] || fail "$target does not build"
    processor=${target%%-*}
    name=fairmesh-gateway-$version-linux-$processor
    mkdir "$work/$name"
    install -m755 "$binary" "$work/$name"
    ln -s fairmesh-gateway "$work/$name/fairmesh-node"
    install -m644 LICENSE-MIT LICENSE-APACHE packaging/examples/{gateway,node}.toml packaging/systemd/*.service "$work/$name"
    scripts/notices.py fairmesh-agent > "$work/$name/NOTICES"
    pack "$name.tar.gz" "$work" "$name"
    packaging/openwrt/build.sh "$binary" "$out" "$processor" >/dev/null
    case $processor in
    x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; armv7) arch=armel ;; *) arch=$processor ;;
    esac
    DEB_ARCH=$arch packaging/deb/build.sh "$binary" "$out" >/dev/null
done
sed "s/^ARG VERSION\$/ARG VERSION=$version/" packaging/container/Containerfile > "$out/fairmesh-gateway-$version.Containerfile"

# Python: wheels, and the source distribution of the package alone.
scripts/python.sh release "$@" >/dev/null
cp "$dir"/wheels/* "$out"

(cd "$out" && LC_ALL=C sha256sum -- * > "$work/sums" && mv "$work/sums" SHA256SUMS && chmod 644 SHA256SUMS)
ls -l "$out"
