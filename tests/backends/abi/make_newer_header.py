#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes device_plugin.h as a later minor version may have it: one more field at the end of every struct that may grow.

  make_newer_header.py FOLDER_OF_INCLUDES FOLDER     writes FOLDER/transom/device_plugin.h, and copies device_plugin.hpp
"""
import pathlib
import re
import shutil
import sys

source, target = (pathlib.Path(folder) / "transom" for folder in sys.argv[1:])
text = (source / "device_plugin.h").read_text()
text, count = re.subn(r"(typedef struct (\w+) \{\n  size_t struct_size;.*?\n)(\} \2;)", r"\1  uint64_t added_later[3];\n\3", text,
                      flags=re.DOTALL)
EXPECTED = 7  # node, graph, properties, statistics, launch, host, plugin
if count != EXPECTED:
    raise SystemExit(f"device_plugin.h: expected {EXPECTED} structs that begin with struct_size, found {count}")
text, count = re.subn(r"(#define TRANSOM_PLUGIN_MINOR )(\d+)", lambda match: match[1] + str(int(match[2]) + 1), text)
if count != 1:
    raise SystemExit("device_plugin.h: expected one TRANSOM_PLUGIN_MINOR")
target.mkdir(parents=True, exist_ok=True)
(target / "device_plugin.h").write_text(text)
shutil.copy(source / "device_plugin.hpp", target)
