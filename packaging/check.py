#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py FILE ...: sizes of packages (at most 50 MB packed, 150 MB unpacked, in millions of bytes), that the list of
parts has every file with its digest, and that each part has the text of its licence."""
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import zipfile

MOST_PACKED, MOST_UNPACKED = 50_000_000, 150_000_000


def files_of(package):
    """{name: bytes} of a package's files, without what it calls its folder."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    data = package.read_bytes()
    if package.suffix == ".deb":
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {name.name: archive.extractfile(name).read() for name in archive.getmembers() if name.isfile()}


def check_list(package, files):
    """Against the SPDX document inside."""
    place = next(name for name in files if name.endswith(".spdx.json"))
    document = json.loads(files[place])
    is_wheel = package.suffix == ".whl"
    folder = place.rpartition("/")[0].replace("/sboms", "/licenses")
    root = {".deb": "./usr/", ".whl": "transom/"}.get(package.suffix) or place.partition("/")[0] + "/"
    digests = {each["fileName"]: each["checksums"][1]["checksumValue"] for each in document["files"]}
    for name, data in files.items():
        if name == place or is_wheel and not name.startswith(root):  # what an installer reads of a wheel
            continue
        if digests.get("./" + name.removeprefix(root)) != hashlib.sha256(data).hexdigest():
            raise SystemExit(f"{package.name}: {name} is not what {place} lists")
    parts = [each["name"] for each in document["packages"] if each["name"] != "transom"]
    for part in parts:
        text = files.get(f"{folder}/{part}.txt", b"")
        if not text or b"No licence text was found" in text:
            raise SystemExit(f"{package.name}: {part} has no licence text")
    return f"{len(digests)} files listed, licences of {len(parts)} parts"


def main():
    for package in map(pathlib.Path, sys.argv[1:]):
        packed, files = package.stat().st_size, files_of(package)
        unpacked = sum(map(len, files.values()))
        print(f"{package.name}: {packed / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked, {check_list(package, files)}")
        if packed > MOST_PACKED or unpacked > MOST_UNPACKED:
            raise SystemExit(f"{package.name}: expected at most {MOST_PACKED / 1e6:.0f} and {MOST_UNPACKED / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
