// SPDX-License-Identifier: Apache-2.0
// Any bytes as the manifest of a sharded checkpoint: what is accepted names files of its own directory and can be
// written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "transom/error.h"
#include "work/train/files/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  Manifest manifest;
  try {
    manifest = Manifest::from_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const Error&) {
    return 0;
  }
  for (const auto& [name, file] : manifest.files)
    if (name.empty() || name.find('/') != name.npos || name == "." || name == "..") std::abort();
  const Manifest again = Manifest::from_json(manifest.to_json(), "written");
  if (again.step != manifest.step || again.ranks != manifest.ranks || again.mesh != manifest.mesh) std::abort();
  if (again.files.size() != manifest.files.size()) std::abort();
  return 0;
}
