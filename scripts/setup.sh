#!/usr/bin/env bash
# Installs missing tools for building and testing. Needs root only to install.
#   setup.sh build   a Rust toolchain and a C linker
#   setup.sh test    also: the tools that some tests call
#   setup.sh dependencies   also cargo-deny, cargo-machete and cargo-cyclonedx, which are built from source
#   setup.sh minimum   also the oldest Rust that the project supports
set -euo pipefail
cd "$(dirname "$0")/.."

# Kept equal to rust-version in Cargo.toml.
minimum=1.89

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

updated=
install() { # install PACKAGE...: those that are not installed yet
    local missing=()
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep 'install ok installed' >/dev/null || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "installing ${missing[*]}"
    if [ -z "$updated" ]; then
        as_root apt-get update -qq || return 1
        updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

new_enough() {
    command -v cargo >/dev/null || return 1
    local have
    have=$(rustc --version 2>/dev/null | awk '{print $2}') || return 1
    [ "$(printf '%s\n%s\n' "$minimum" "$have" | sort -V | head -n 1)" = "$minimum" ]
}

rust() {
    # rust-toolchain.toml names a toolchain; rustup fetches it if missing.
    if command -v rustup >/dev/null && ! rustc --version >/dev/null 2>&1; then
        say "installing the Rust toolchain of rust-toolchain.toml"
        rustup toolchain install "$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)" \
            --profile minimal --component rustfmt --component clippy >&2 || true
    fi
    new_enough && return 0
    # Debian 12 carries a current Rust for its browsers; Debian 13 carries rustup.
    if install rustc-web cargo-web && new_enough; then return 0; fi
    if install rustup && rustup default stable && new_enough; then return 0; fi
    say "Rust $minimum or newer is needed and could not be installed; see the README"
    exit 1
}

command -v cc >/dev/null || install gcc libc6-dev
rust
[ "${1:-build}" = build ] && exit 0
if [ "$1" = dependencies ]; then
    if ! command -v cargo-deny >/dev/null; then
        say "building cargo-deny, which checks licences and sources of dependencies"
        # A separate folder, so that builds of the project do not rebuild it.
        CARGO_PROFILE_DEV_DEBUG=0 timeout 1500 cargo install --quiet --locked --debug --no-default-features --version 0.20.2 cargo-deny >&2 \
            || say "no cargo-deny: licences and sources of dependencies will not be checked"
    fi
    if ! command -v cargo-machete >/dev/null; then
        say "building cargo-machete, which finds unused dependencies"
        CARGO_PROFILE_DEV_DEBUG=0 timeout 900 cargo install --quiet --locked --debug --version 0.9.2 cargo-machete >&2 \
            || say "no cargo-machete: unused dependencies will not be found"
    fi
    if ! command -v cargo-cyclonedx >/dev/null; then
        say "building cargo-cyclonedx, which writes the bills of material of a release"
        CARGO_PROFILE_DEV_DEBUG=0 timeout 1500 cargo install --quiet --locked --debug --version 0.5.9 cargo-cyclonedx >&2 \
            || say "no cargo-cyclonedx: no release can be made"
    fi
    exit 0
fi
if [ "$1" = minimum ]; then
    if command -v rustup >/dev/null && ! rustup toolchain list | grep "^$minimum" >/dev/null; then
        say "installing Rust $minimum"
        timeout 600 rustup toolchain install "$minimum" --profile minimal --no-self-update >/dev/null 2>&1 \
            || say "no Rust $minimum: the project will not be checked with it"
    fi
    exit 0
fi

# Disk space of builds and tests, with their files in the home folder, in GB.
needed=5
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
[ "$free" -ge "$needed" ] || [ -d "${CARGO_TARGET_DIR:-target}/debug" ] \
    || say "$free GB are free here; building and testing everything takes about $needed"

# tshark reads captures; valgrind counts instructions; iproute2, nftables and iperf3 are for the tests in network
# namespaces, and babeld for those of the gateway's sources (without an interface in its configuration it does not
# start by itself). qemu runs binaries for other processors, and pip fetches their linker. systemd checks the unit
# (it does not become the init system). tzdata has the names of time zones. python3-venv is for the Python package,
# and the rest of the last line for scripts/kernel.
install tshark valgrind iproute2 nftables iperf3 babeld qemu-user-static python3-pip binutils procps systemd \
    python3-venv tzdata qemu-system-x86 kmod xz-utils zstd debian-archive-keyring || say "a tool is missing: the tests that call it will report it"
# For the explorer's tests: a browser, and Node.js unless another one is installed.
command -v chromium >/dev/null || install chromium || say "no Chromium: the page of results will not be tested"
command -v npm >/dev/null || install nodejs npm || say "no Node.js: the page of results will not be tested"
# The targets of the purity check and of the routers' daemon (scripts/gateway.sh). All are installed here, because
# two rustups must not run concurrently.
if command -v rustup >/dev/null; then
    installed=$(rustup target list --installed)
    for target in wasm32-unknown-unknown x86_64-unknown-linux-musl; do
        grep -qx "$target" <<< "$installed" || timeout 300 rustup target add "$target" >/dev/null 2>&1 \
            || say "no target $target: the steps that need it will report it"
    done
    rustup component list --installed | grep '^rust-src' >/dev/null || timeout 300 rustup component add rust-src >/dev/null 2>&1 \
        || say "no rust-src: the steps that need it will report it"
fi
