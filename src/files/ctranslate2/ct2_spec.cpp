// SPDX-License-Identifier: Apache-2.0
#include "files/ctranslate2/ct2_spec.h"

#include <fstream>
#include <vector>

#include "base/error.h"

namespace transom {
namespace {

std::vector<Ct2Spec>& known_specs() {
  static std::vector<Ct2Spec> all;
  return all;
}

const Ct2Spec& spec_of(const Ct2File& file) {
  std::vector<std::string> names;
  for (const Ct2Spec& spec : known_specs()) {
    if (file.spec() == spec.name) return spec;
    names.emplace_back(spec.name);
  }
  fail(ErrorKind::kUnsupported, "{}: a model of CTranslate2 by the specification {}; read are: {}", file.where(),
       quoted(file.spec()), fmt::join(names, ", "));
}

ContainerParts parts_of_ct2(const std::filesystem::path& path) {
  const Ct2File file = Ct2File::open(path);
  return spec_of(file).parts(file, path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

// The version, and the length of the name behind it: what files of a specification begin with.
std::string beginning_of_ct2(uint32_t version, std::string_view name) {
  std::string begin{static_cast<char>(version), '\0', '\0', '\0', static_cast<char>(name.size() + 1), '\0'};
  return begin + std::string(name.substr(0, 10));
}

}  // namespace

RegisterCt2Spec::RegisterCt2Spec(const Ct2Spec& spec) {
  known_specs().push_back(spec);
  // Files are told by their first bytes: others end in .bin, too.
  for (uint32_t version = kOldestCt2; version <= kNewestCt2; ++version)
    RegisterContainer(".ct2", beginning_of_ct2(version, spec.name), parts_of_ct2);
}

bool is_ct2_file(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;
  char begin[16] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(begin, sizeof begin);
  const std::string_view found(begin, static_cast<size_t>(file.gcount()));
  for (const Ct2Spec& spec : known_specs())
    for (uint32_t version = kOldestCt2; version <= kNewestCt2; ++version)
      if (found.starts_with(beginning_of_ct2(version, spec.name))) return true;
  return false;
}

std::optional<std::filesystem::path> ct2_file_in(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "model.bin";
  return is_ct2_file(path) ? std::optional(path) : std::nullopt;
}

NamedViews ct2_weights(const std::filesystem::path& path) {
  const Ct2File file = Ct2File::open(path);
  return spec_of(file).weights(file);
}

}  // namespace transom
