#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# partners.sh SOURCE BUILD [PROJECT...]: installs the build without the partners' plugins, and builds, tests and installs
# the projects of partners/ against that, in a copy of partners/ that lies alone: as a maker of hardware does.
set -euo pipefail
source_dir=$1 build_dir=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/transom" >/dev/null
cp -r "$source_dir/partners" "$work/partners"
export TRANSOM_GOLDEN_CASES=$build_dir/golden
[ $# -gt 0 ] || set -- $(cd "$source_dir/partners" && ls -d */CMakeLists.txt | xargs -n 1 dirname)
for description in "$source_dir"/partners/*/libtransom_*.json; do
  name=$(basename "$description" .json)
  [ -f "$work/transom/lib/transom/$name.json" ] || continue
  rm -f "$work/transom/lib/transom/$name.so"  # its description stays
  device=${name#libtransom_}
  "$work/transom/bin/transom" devices | grep -q "^$device .*not supported by this version" ||
    { echo "partners: expected no device $device where its plugin is not installed" >&2; exit 1; }
done

launcher=$(command -v ccache || true)
for project in "$@"; do
  cmake -S "$work/partners/$project" -B "$work/build/$project" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$work/transom" ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"} >/dev/null
  cmake --build "$work/build/$project" -j "$(nproc)" >/dev/null
  ctest --test-dir "$work/build/$project" --output-on-failure -j "$(nproc)"
  cmake --install "$work/build/$project" --prefix "$work/transom" >/dev/null
done
"$work/transom/bin/transom" devices
