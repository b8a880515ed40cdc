// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/pipeline_output.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "files/hub/adapters.h"
#include "files/original/pipeline_files.h"
#include "models/loading/adapters/adapter_file.h"

namespace transom {
namespace {

constexpr std::string_view kPrefixOfPeft = "base_model.model.";

// By value: a link would share its bytes with the base, and files of a hub's snapshot are relative links themselves.
void copy_to(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path source = fs::canonical(from, error);
  if (error) fail("{}: cannot be read: {}", from.string(), error.message());
  const fs::path folder = fs::canonical(to.parent_path(), error);
  if (error) fail("{}: is no folder: {}", to.parent_path().string(), error.message());
  if (folder / to.filename() == source) return;
  fs::remove(to, error);
  if (!error) fs::copy_file(source, to, error);
  if (error) fail("{}: cannot be copied to {}: {}", from.string(), to.string(), error.message());
}

// The configuration of a network and its weights, in one file or in shards.
bool is_of_network(const std::string& name) { return name == "config.json" || name.find("model") != name.npos; }

}  // namespace

void PipelineOutput::write(const fs::path& directory) const {
  const fs::path weights = directory / "model.safetensors", own = directory / part;
  if (!path_exists(weights)) fail("{}: expected the weights in one file", directory.string());
  make_directories(own);
  write_file(own / "config.json", read_file(directory / "config.json"));
  if (average) average->write(own / kNetworkWeightsName);
  else copy_to(weights, own / kNetworkWeightsName);
  const Json named = parse_json(index, "index");
  for (const fs::path& folder : base.empty() ? std::vector<fs::path>() : list_directory(base)) {
    const std::string name = folder.filename().string();
    // Checkpoints of an earlier run may lie in the base.
    if (!directory_exists(folder) || name == part || name == "scheduler" || others.contains(name) ||
        !named.contains(name))
      continue;
    make_directories(directory / name);
    for (const fs::path& file : list_directory(folder))
      if (file_exists(file)) copy_to(file, directory / name / file.filename());
  }
  for (const auto& [name, folder] : others) {
    make_directories(directory / name);
    for (const fs::path& file : list_directory(folder))
      if (file_exists(file) && is_of_network(file.filename().string()))
        copy_to(file, directory / name / file.filename());
  }
  make_directories(directory / "scheduler");
  write_file(directory / "scheduler" / kSchedulerConfigName, schedule);
  write_file(directory / kPipelineIndexName, index);
}

void write_lora(const fs::path& directory, const std::string& part, bool by_peft) {
  const SafetensorsFile adapters = SafetensorsFile::open(directory / kAdapterFile);
  NamedViews named;
  for (const auto& [key, view] : adapters.tensors()) {
    std::string name = key;
    if (name.starts_with(kPrefixOfPeft)) name.erase(0, kPrefixOfPeft.size());
    for (const auto& [peft, diffusers] :
         {std::pair<std::string_view, std::string_view>{".lora_A.", ".lora.down."}, {".lora_B.", ".lora.up."}})
      if (const size_t place = name.find(peft); !by_peft && place != name.npos)
        name.replace(place, peft.size(), diffusers);
    named.emplace_back(part + "." + name, view);
  }
  // Without it the readers take alpha for the rank.
  const Json config = read_json(directory / kAdapterConfig);  // which items() refers to
  Json fields = Json::object();
  for (const auto& [key, value] : config.items()) fields[part + "." + key] = value;
  write_safetensors(directory / kLoraWeightsName, named,
                    {{"format", "pt"}, {"lora_adapter_metadata", dump_json(fields, 2)}});
}

}  // namespace transom
