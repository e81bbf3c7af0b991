#!/usr/bin/env python3
"""Complete a bill of material of cargo-cyclonedx.

    bill.py BOM SOURCE

Prints the bill without the path of the copy of the source in which it was made. The npm packages that are bundled into
the pages of its crates are added: those that the pages name, with the checksums of the lock file of SOURCE.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path

# Crate: the page that it embeds, which ends with names, versions and licences of its npm packages.
PAGES = {"fairmesh-report": "crates/report/assets/explorer.html", "fairmesh-agent": "crates/agent/assets/page.html"}
LINE = re.compile(r"^(\S+) (\d\S*) \(([^)]+)\)$", re.MULTILINE)


def bundled(source: Path, page: str) -> list[dict]:
    """Components for the npm packages that a page contains."""
    lock = json.loads((source / "ui/package-lock.json").read_text(encoding="utf-8"))["packages"]
    components = []
    for name, version, licence in LINE.findall((source / page).read_text(encoding="utf-8")):
        algorithm, digest = lock[f"node_modules/{name}"]["integrity"].split("-", 1)
        components.append({
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{version}",
            "name": name,
            "version": version,
            "scope": "required",
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
            "licenses": [{"expression": licence}],
            "purl": f"pkg:npm/{name}@{version}",
        })
    return components


def main() -> None:
    """Print the bill."""
    file, source = Path(sys.argv[1]), Path(sys.argv[2])
    text = file.read_text(encoding="utf-8").replace(f"path+file://{source}/", f"path+file:///{source.name}/")
    bom = json.loads(text)
    crates = {c["name"]: c["bom-ref"] for c in [bom["metadata"]["component"], *bom["components"]]}
    known = set()
    for crate in sorted(PAGES.keys() & crates.keys()):
        packages = bundled(source, PAGES[crate])
        for dependency in bom["dependencies"]:
            if dependency["ref"] == crates[crate]:
                dependency.setdefault("dependsOn", []).extend(p["bom-ref"] for p in packages)
        new = sorted((p for p in packages if p["bom-ref"] not in known), key=lambda p: p["name"])
        known |= {p["bom-ref"] for p in new}
        bom["components"] += new
        bom["dependencies"] += [{"ref": p["bom-ref"], "dependsOn": []} for p in new]
    json.dump(bom, sys.stdout, indent=2, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
