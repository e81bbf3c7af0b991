#!/usr/bin/env python3
"""Check the files of a release.

    check.py FOLDER VERSION

Prints one line for each problem and exits with 1 if there is any.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from bill import LINE, PAGES

ROOT = Path(__file__).resolve().parent.parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# ELF machine numbers of wheels.
MACHINES = {"x86_64": 62, "aarch64": 183}
# TARGETARCH of the Containerfile by router.
CONTAINERS = {"x86_64-unknown-linux-musl": "amd64", "aarch64-unknown-linux-musl": "arm64"}
# Bill of material: the package that it describes.
BILLS = {"fairmesh-gateway": "fairmesh-agent", "fairmesh": "fairmesh", "fairmesh-python": "fairmesh-python"}

problems: list[str] = []


def expect(condition: object, problem: str) -> None:
    """Record a problem unless the condition holds."""
    if not condition:
        problems.append(problem)


def checksums(folder: Path, files: list[Path]) -> None:
    """Every file has its line in SHA256SUMS, and every line its file."""
    listed = {}
    for line in (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines():
        digest, name = re.fullmatch(r"([0-9a-f]{64})  (\S+)", line).groups()
        listed[name] = digest
    expect(listed.keys() == {f.name for f in files}, f"SHA256SUMS: lists {sorted(listed)}; expected the files of {folder}")
    for file in files:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        expect(listed.get(file.name) == digest, f"{file.name}: SHA-256 {digest}; expected {listed.get(file.name)} of SHA256SUMS")


def archive(file: Path, python: bool) -> None:
    """Times are equal, owners root, names sorted in each folder (not by maturin: python)."""
    with tarfile.open(file) as tar:
        members = tar.getmembers()
    expect(len({m.mtime for m in members}) == 1, f"{file.name}: has members with different times; expected that of the commit")
    expect(all(m.uid == m.gid == 0 for m in members), f"{file.name}: has members of another owner than root")
    if not python and file.suffix == ".gz":
        # git compares the names of folders with their slash, tar without.
        by_tar = [m.name.split("/") for m in members]
        by_git = [(m.name + "/" * m.isdir()).replace("/", "/\0").split("\0") for m in members]
        expect(by_tar == sorted(by_tar) or by_git == sorted(by_git), f"{file.name}: names are not sorted")


def linked(package: str) -> set[tuple[str, str]]:
    """Name and version of the crates of a package for routers."""
    tree = subprocess.run(
        [CARGO, "tree", "--locked", "--package", package, "--edges", "normal", "--target", "x86_64-unknown-linux-musl",
         "--prefix", "none", "--format", "{p}"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = (line.split() for line in tree.splitlines() if line)
    return {(name, version.removeprefix("v")) for name, version, *_ in lines}


def bill(file: Path, package: str, version: str) -> None:
    """A bill of material lists every crate of the package, each with a licence."""
    bom = json.loads(file.read_text(encoding="utf-8"))
    expect(bom.get("bomFormat") == "CycloneDX", f"{file.name}: bomFormat: {bom.get('bomFormat')}; expected CycloneDX")
    root = bom["metadata"]["component"]
    expect((root["name"], root["version"]) == (package, version),
           f"{file.name}: describes {root['name']} {root['version']}; expected {package} {version}")
    listed = {(c["name"], c["version"]) for c in [root, *bom["components"]]}
    for name, number in sorted(linked(package) - listed):
        problems.append(f"{file.name}: has no component {name} {number}")
    for crate, page in PAGES.items():
        if any(name == crate for name, _ in listed):
            bundled = LINE.findall((ROOT / page).read_text(encoding="utf-8"))
            expect(bundled, f"{page}: names no npm package")
            for name, number, _ in bundled:
                expect((name, number) in listed, f"{file.name}: has no component {name} {number}")
    for component in bom["components"]:
        expect(component.get("licenses"), f"{file.name}: {component['name']}: has no licence")


def notices(text: str, where: str) -> None:
    """The notices name every third-party crate that is linked into the daemon."""
    names = subprocess.run([ROOT / "scripts/notices.py", "--names", "fairmesh-agent"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    expect(len(names) > 10, f"notices.py: names {len(names)} crates")
    for name in names:
        expect(f"\n{name} (" in text, f"{where}: does not name {name}")


def daemon(file: Path, version: str) -> None:
    """The archive of the daemon has licences and notices; the program of this processor runs."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-xzf", file, "-C", folder], check=True)
        top = Path(folder) / file.name.removesuffix(".tar.gz")
        for name in ("LICENSE-MIT", "LICENSE-APACHE", "NOTICES", "gateway.toml", "fairmesh-gateway.service"):
            expect((top / name).is_file(), f"{file.name}: has no {name}")
        notices((top / "NOTICES").read_text(encoding="utf-8"), f"{file.name}: NOTICES")
        if f"-{platform.machine()}." in file.name:
            for name in ("fairmesh-gateway", "fairmesh-node"):
                printed = subprocess.run([top / name, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
                expect(printed == f"{name} {version}\n", f"{file.name}: {name} --version prints {printed!r}")


def ipk(file: Path, version: str) -> None:
    """The control file of an ipk has the version, and its data the notices."""
    with tarfile.open(file) as outer:
        control = tarfile.open(fileobj=io.BytesIO(outer.extractfile("./control.tar.gz").read()))
        data = tarfile.open(fileobj=io.BytesIO(outer.extractfile("./data.tar.gz").read()))
        expect(f"\nVersion: {version}\n".encode() in control.extractfile("./control").read(), f"{file.name}: control: Version")
        # The pages of LuCI have no parts of others.
        if file.name.startswith("luci-app-"):
            return
        inside = data.extractfile("./usr/share/doc/fairmesh-gateway/NOTICES.gz").read()
        notices(gzip.decompress(inside).decode(), f"{file.name}: NOTICES.gz")


def wheel(file: Path, version: str) -> None:
    """A wheel has the version, the licences, and a module for the processor in its name."""
    with zipfile.ZipFile(file) as archive:
        info = f"fairmesh-{version}.dist-info"
        expect(f"\nVersion: {version}\n" in archive.read(f"{info}/METADATA").decode(), f"{file.name}: METADATA: Version")
        for name in ("LICENSE-MIT", "LICENSE-APACHE"):
            expect(f"{info}/licenses/{name}" in archive.namelist(), f"{file.name}: has no {name}")
        module = next((n for n in archive.namelist() if n.endswith(".abi3.so")), None)
        expect(module, f"{file.name}: has no abi3 module")
        processor = next((p for p in MACHINES if file.name.endswith(f"_{p}.whl")), None)
        expect(processor, f"{file.name}: is for another processor than {', '.join(MACHINES)}")
        if module and processor:
            machine = int.from_bytes(archive.read(module)[18:20], "little")
            expect(machine == MACHINES[processor], f"{file.name}: ELF machine {machine}; expected {MACHINES[processor]}")


def container(file: Path, folder: Path, version: str) -> None:
    """Every file that the image copies is in the release."""
    text = file.read_text(encoding="utf-8")
    copies = re.findall(r"^COPY (\S+) ", text, re.MULTILINE)
    expect(copies and f"\nARG VERSION={version}\n" in text, f"{file.name}: has no COPY or no ARG VERSION={version}")
    routers = subprocess.run(
        [ROOT / "scripts/gateway.sh", "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    for copy in copies:
        for arch in (arch for target, arch in CONTAINERS.items() if target in routers):
            name = copy.replace("${VERSION}", version).replace("${TARGETARCH}", arch)
            expect((folder / name).is_file(), f"{file.name}: COPY {copy}: no {name}")


def main() -> None:
    """Check a folder."""
    folder, version = Path(sys.argv[1]), sys.argv[2]
    if not (folder / "SHA256SUMS").is_file():
        sys.exit(f"dist: {folder}: no SHA256SUMS; expected the folder of `make dist`")
    files = sorted(f for f in folder.iterdir() if f.name != "SHA256SUMS")
    checksums(folder, files)
    for file in files:
        expect(version in file.name, f"{file.name}: its name has no version; expected {version}")
        if file.name.endswith((".tar.gz", ".ipk")):
            archive(file, python=file.name == f"fairmesh-{version}.tar.gz")
        if file.name.startswith("fairmesh-gateway-") and file.name.endswith(".tar.gz"):
            daemon(file, version)
        if file.suffix == ".ipk":
            ipk(file, version)
        if file.suffix == ".deb":
            found = subprocess.run(["dpkg-deb", "--field", file, "Version"], check=True, stdout=subprocess.PIPE, text=True).stdout
            expect(found.strip() == version, f"{file.name}: Version: {found.strip()}")
        if file.suffix == ".whl":
            wheel(file, version)
        if file.suffix == ".Containerfile":
            container(file, folder, version)
    for name, package in BILLS.items():
        bill(folder / f"{name}-{version}.cdx.json", package, version)
    notices((folder / f"fairmesh-{version}-notices.txt").read_text(encoding="utf-8"), "notices")
    kinds = {".deb", ".ipk", ".whl", ".Containerfile", ".json", ".txt", ".gz"}
    for kind in sorted(kinds - {f.suffix for f in files}):
        problems.append(f"no file {kind}")
    for problem in problems:
        print(f"dist: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"dist: {len(files)} files of {version}: checksums, names, archives, licences, bills of material, container")


if __name__ == "__main__":
    main()
