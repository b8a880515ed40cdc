#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# find_package.sh SOURCE BUILD: installs the build, moves it, and builds and runs the examples against it as a project
# that knows nothing but find_package(transom).
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"  # nothing may remember where it was installed
cp -r "$source_dir/examples" "$work/project"

launcher=$(command -v ccache || true)
cmake -S "$work/project" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/moved" \
  ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"} >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/example_train_a_function"
"$work/build/example_train_a_module"
"$work/moved/bin/transom" devices
"$work/moved/bin/transom" devices --json >"$work/devices.json"
grep -q '"cpu"' "$work/devices.json"
