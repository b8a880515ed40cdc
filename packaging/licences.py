# SPDX-License-Identifier: Apache-2.0
"""The licences of what a package holds: those of Debian's packages from /usr/share/doc, of oneDNN from its wheel."""
import os
import pathlib
import re
import shutil
import subprocess

# What is compiled into files of ours: the package of Debian, the name of the part, one of the files.
COMPILED_IN = (("llvm-19-dev", "llvm-toolchain-19", "transom-cpu-codegen.so"),
               ("nlohmann-json3-dev", "nlohmann-json3", "libtransom.so.0"),
               ("libboost1.81-dev", "boost1.81", "libtransom.so.0"),
               ("libcpp-httplib-dev", "cpp-httplib", "libtransom.so.0"))
# Copyright files of Debian name these instead of repeating them.
COMMON = pathlib.Path("/usr/share/common-licenses")


def debian_package(file):
    """The package that a file is of, as (name, version, source); None for files of no package."""
    for path in (file, pathlib.Path("/usr") / file.relative_to("/") if str(file).startswith("/lib") else file,
                 pathlib.Path(str(file).replace("/usr/lib", "/lib", 1))):
        found = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if found.returncode == 0:
            name = found.stdout.split(":")[0].split(",")[0]
            fields = subprocess.run(["dpkg-query", "-W", "-f=${Version}\t${source:Package}", name], check=True,
                                    capture_output=True, text=True).stdout.split("\t")
            return name, fields[0], fields[1]
    return None


def parts_of(tree, source):
    """What is inside besides Transom itself: [(name, version, files, texts of the licence)]."""
    parts = {}
    for name, (path, place) in sorted([*tree.libraries.items(), *tree.runtime.items()]):
        package = debian_package(path)
        if package:
            label, version = package[2], package[1]
            texts = [pathlib.Path("/usr/share/doc") / package[0] / "copyright"]
        else:
            label, version = path.name.split(".so")[0], path.name.partition(".so.")[2]
            texts = sorted((source / ".deps/onednn").rglob("*LICENSE*")) + sorted(
                (source / ".deps/onednn").rglob("THIRD-PARTY-PROGRAMS*"))
        entry = parts.setdefault(label, (version, [], texts))
        entry[1].append(place)
    for package, label, file in COMPILED_IN:
        text, places = pathlib.Path("/usr/share/doc") / package / "copyright", sorted(tree.root.rglob(file))
        if places and "libLLVM" in subprocess.run(["readelf", "-d", places[0]], capture_output=True, text=True).stdout:
            continue  # of a package that asks for LLVM's own
        if text.exists() and places and label not in parts:
            version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True,
                                     text=True).stdout
            parts[label] = (version, places[:1], [text])
    for module in tree.root.glob("_transom.*.so"):  # of the wheel
        for metadata in sorted((source / ".deps/python").glob("nanobind-*.dist-info")):
            parts["nanobind"] = (metadata.name.split("-")[1].removesuffix(".dist"), [module],
                                 sorted(metadata.rglob("*LICENSE*")))
    return [(label, version, files, [text for text in texts if text.exists()])
            for label, (version, files, texts) in sorted(parts.items())]


def write_licences(folder, tree, source):
    """One file a part, Transom's own, and the licences that Debian's files name by their place."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "LICENSE", folder / "LICENSE")
    common = set()
    for label, version, files, texts in parts_of(tree, source):
        lines = [f"{label} {version}", "in: " + ", ".join(sorted(os.path.basename(file) for file in files)), ""]
        if not texts:
            lines.append("No licence text was found where this package was made.")
        for text in texts:
            lines.append(text.read_text(errors="replace"))
            common.update(re.findall(rf"{COMMON}/([A-Za-z]+(?:-[0-9.]*[0-9])?)", lines[-1]))
        (folder / f"{label}.txt").write_text("\n".join(lines))
    for name in sorted(common):
        if (COMMON / name).exists():
            (folder / "common-licenses").mkdir(exist_ok=True)
            shutil.copyfile(COMMON / name, folder / "common-licenses" / name)
