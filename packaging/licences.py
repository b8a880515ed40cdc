# SPDX-License-Identifier: Apache-2.0
"""The licences of what a package holds: those of Debian's packages from /usr/share/doc, of oneDNN from its wheel."""
import os
import pathlib
import shutil
import subprocess


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
    for name, (path, place) in sorted(tree.libraries.items()):
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
    llvm = pathlib.Path("/usr/share/doc/llvm-19-dev/copyright")
    if llvm.exists() and not any("llvm" in label for label in parts):
        version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "llvm-19-dev"], capture_output=True,
                                 text=True).stdout
        parts["llvm-toolchain-19"] = (version, [tree.root / "lib/transom/transom-cpu-codegen.so"], [llvm])
    headers = pathlib.Path("/usr/share/doc/nlohmann-json3-dev/copyright")
    if headers.exists():
        version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "nlohmann-json3-dev"], capture_output=True,
                                 text=True).stdout
        parts["nlohmann-json3"] = (version, [tree.root / "lib/libtransom.so.0"], [headers])
    return [(label, version, files, [text for text in texts if text.exists()])
            for label, (version, files, texts) in sorted(parts.items())]


def write_licences(folder, tree, source):
    """One file a part, and Transom's own."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "LICENSE", folder / "LICENSE")
    for label, version, files, texts in parts_of(tree, source):
        lines = [f"{label} {version}", "in: " + ", ".join(sorted(os.path.basename(file) for file in files)), ""]
        if not texts:
            lines.append("No licence text was found where this package was made.")
        for text in texts:
            lines.append(text.read_text(errors="replace"))
        (folder / f"{label}.txt").write_text("\n".join(lines))
