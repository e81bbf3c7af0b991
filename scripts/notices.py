#!/usr/bin/env python3
"""Print the licence notices of the Rust crates that are linked into packages.

    notices.py [--names] PACKAGE...

The notices are the licence files of the crates as downloaded, each text once. Of a crate that offers MIT among other
licences, the file for Apache-2.0 is left out if another one is there. With --names: only "NAME VERSION" lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# The union over the router builds and the Python package; no crate differs between the musl targets.
TARGET = "x86_64-unknown-linux-musl"
NOTICE = re.compile(r"(un)?licen[sc]e|copying|copyright|notice", re.IGNORECASE)


def cargo(*arguments: str) -> str:
    """Output of a cargo command at the root of the workspace."""
    return subprocess.run([CARGO, *arguments, "--locked"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(packages: list[str]) -> set[tuple[str, str]]:
    """Name and version of the linked crates from outside of the workspace."""
    found = set()
    for package in packages:
        lines = cargo("tree", "--package", package, "--edges", "normal,no-proc-macro", "--target", TARGET,
                      "--prefix", "none", "--format", "{p}")
        for line in lines.splitlines():
            if line and "(/" not in line:
                name, version = line.split()[:2]
                found.add((name, version.removeprefix("v")))
    return found


def licence_files(folder: Path, licence: str) -> list[Path]:
    """Licence files of a crate, sorted by name."""
    files = sorted(f for f in folder.iterdir() if f.is_file() and NOTICE.match(f.name))
    without = [f for f in files if "apache" not in f.name.lower()]
    return without if without and "MIT" in licence else files


def main() -> None:
    """Print the notices, or the names."""
    packages = [a for a in sys.argv[1:] if a != "--names"]
    if not packages:
        sys.exit(__doc__)
    crates = linked(packages)
    if "--names" in sys.argv:
        print("\n".join(f"{n} {v}" for n, v in sorted(crates)))
        return
    known = {(p["name"], p["version"]): p for p in json.loads(cargo("metadata", "--format-version", "1"))["packages"]}
    texts: dict[str, tuple[str, list[str]]] = {}
    print("fairmesh: MIT OR Apache-2.0. The programs contain the following software.\n")
    print((ROOT / "packaging/notices/runtime.txt").read_text(encoding="utf-8"))
    for crate in sorted(crates):
        package = known[crate]
        licence = package["license"] or f"see {package['license_file']}"
        print(f"{package['name']} {package['version']} ({licence}) {package['repository'] or ''}".rstrip())
        files = licence_files(Path(package["manifest_path"]).parent, licence)
        if not files:
            print(f"    has no licence file; authors: {', '.join(package['authors']) or 'see its repository'}")
        for file in files:
            text = file.read_text(encoding="utf-8", errors="replace").strip()
            texts.setdefault(" ".join(text.split()), (text, []))[1].append(f"{package['name']} {package['version']}")
    if "fairmesh-agent" in packages:
        page = (ROOT / "crates/agent/assets/page.html").read_text(encoding="utf-8")
        print("\n" + "-" * 72 + "\nThe page of the gateway daemon contains:\n" + page.split("<!-- This page contains:")[1].split("-->")[0].rstrip())
    for text, names in texts.values():
        print("\n" + "-" * 72 + "\n" + ", ".join(names) + "\n\n" + text)


if __name__ == "__main__":
    main()
