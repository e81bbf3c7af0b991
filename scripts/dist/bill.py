#!/usr/bin/env python3
"""Complete a bill of material of cargo-cyclonedx.

    bill.py BOM SOURCE

Prints the bill without the path of the copy of the source in which it was made. If the package contains fairmesh-report,
the npm packages of the explorer's bundle are added, from the lock file of SOURCE.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

EXPLORER = "crates/report/explorer"


def bundled(source: Path) -> list[dict]:
    """Components for the npm packages that are not for development only."""
    lock = json.loads((source / EXPLORER / "package-lock.json").read_text(encoding="utf-8"))
    components = []
    for path, package in sorted(lock["packages"].items()):
        if not path or package.get("dev"):
            continue
        name, version = path.removeprefix("node_modules/"), package["version"]
        algorithm, digest = package["integrity"].split("-", 1)
        components.append({
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{version}",
            "name": name,
            "version": version,
            "scope": "required",
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
            "licenses": [{"expression": package["license"]}],
            "purl": f"pkg:npm/{name}@{version}",
        })
    return components


def main() -> None:
    """Print the bill."""
    file, source = Path(sys.argv[1]), Path(sys.argv[2])
    text = file.read_text(encoding="utf-8").replace(f"path+file://{source}/", f"path+file:///{source.name}/")
    bom = json.loads(text)
    report = next((c["bom-ref"] for c in bom["components"] if c["name"] == "fairmesh-report"), None)
    if report:
        packages = bundled(source)
        bom["components"] += packages
        for dependency in bom["dependencies"]:
            if dependency["ref"] == report:
                dependency["dependsOn"] += [p["bom-ref"] for p in packages]
        bom["dependencies"] += [{"ref": p["bom-ref"], "dependsOn": []} for p in packages]
    json.dump(bom, sys.stdout, indent=2, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
