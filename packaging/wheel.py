#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of a build directory: wheel.py BUILD OUT --patchelf FILE. Two builds of one commit give the same bytes:
files have the time SOURCE_DATE_EPOCH (that of the commit where it is not set) and stand in order."""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import zipfile

from licences import write_licences
from manylinux import policy_of
from sbom import write_sbom
from tree import Tree, copy

SOURCE = pathlib.Path(__file__).resolve().parent.parent

METADATA = """\
Metadata-Version: 2.1
Name: transom
Version: {version}
Summary: Trains, fine-tunes, evaluates and runs Hugging Face checkpoints natively
License: Apache-2.0
Requires-Python: >=3.10
Provides-Extra: arrays
Requires-Dist: numpy>=1.24; extra == 'arrays'
Description-Content-Type: text/markdown

"""
WHEEL = """\
Wheel-Version: 1.0
Generator: transom
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """\
[console_scripts]
transom = transom.__main__:main
"""


def version_of_source():
    return re.search(r"project\(transom VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)


def source_time():
    """In seconds; even, since that is what a ZIP archive keeps, from which packing it again takes the time."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given) // 2 * 2
    return int(subprocess.run(["git", "-C", SOURCE, "log", "-1", "--format=%ct"], check=True, capture_output=True,
                              text=True).stdout) // 2 * 2


def python_tag(module):
    """cp311-cp311 of _transom.cpython-311-...so, cp312-abi3 of _transom.abi3.so."""
    match = re.search(r"\.cpython-(\d+)-", module.name)
    return f"cp{match.group(1)}-cp{match.group(1)}" if match else "cp312-abi3"


def fill(root, build, patchelf):
    """The package transom/ in `root`, with its libraries; returns the wheel's tag."""
    package = root / "transom"
    module = next((build / "python/transom").glob("_transom.*.so"))
    tree = Tree(build, package, patchelf, private_names=True).make(SOURCE / "share/transom")
    copy(module, package / module.name)
    tree.adjust(package / module.name)
    for file in sorted((SOURCE / "python/transom").rglob("*")):
        if file.suffix in (".py", ".pyi") or file.name == "py.typed":
            place = package / file.relative_to(SOURCE / "python/transom")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    for file in sorted((SOURCE / "partners").glob("*/python/*")):  # names that users of a partner's device know
        if file.suffix in (".py", ".names"):
            shutil.copyfile(file, package / file.name)
    stub = build / "python/transom/_transom.pyi"
    if stub.exists():
        shutil.copyfile(stub, package / "_transom.pyi")
    (major, minor), _ = policy_of(tree.own())
    return f"{python_tag(module)}-manylinux_{major}_{minor}_x86_64", tree


def pack(root, wheel, when):
    """The files of `root` as a zip archive, with the record of their digests."""
    name = wheel.name.split("-cp")[0]
    record = f"{name}.dist-info/RECORD"
    stamp = time.gmtime(max(when, 315532800))[:6]
    rows = []
    partial = wheel.with_suffix(".new")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(path, data, mode):
            info = zipfile.ZipInfo(path, stamp)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(info, data)
        for file in sorted(root.rglob("*")):
            if not file.is_file():
                continue
            data, path = file.read_bytes(), file.relative_to(root).as_posix()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(data)}")
            add(path, data, 0o755 if os.access(file, os.X_OK) else 0o644)
        add(record, "\n".join([*rows, f"{record},,"]) + "\n", 0o644)
    partial.replace(wheel)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--patchelf", required=True)
    arguments = parser.parse_args()
    version = version_of_source()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        tag, tree = fill(root, arguments.build.resolve(), arguments.patchelf)
        information = root / f"transom-{version}.dist-info"
        information.mkdir()
        readme = (SOURCE / "python/README.md").read_text()
        (information / "METADATA").write_text(METADATA.format(version=version) + readme)
        (information / "WHEEL").write_text(WHEEL.format(tag=tag))
        (information / "entry_points.txt").write_text(ENTRY_POINTS)
        write_licences(information / "licenses", tree, SOURCE)
        write_sbom(information / "sboms/transom.spdx.json", f"transom-{version}", tree, SOURCE, source_time())
        arguments.out.mkdir(parents=True, exist_ok=True)
        wheel = arguments.out / f"transom-{version}-{tag}.whl"
        pack(root, wheel, source_time())
        unpacked = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked")


if __name__ == "__main__":
    main()
