// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/descriptions/descriptions.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/files/paths.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "runtime/device/plugin.h"
#include "transom/device.h"

namespace transom {
namespace {

constexpr std::string_view kPrefixOfFile = "libtransom_", kEndingOfFile = ".json";
constexpr uint64_t kLargestFile = uint64_t{1} << 20;

template <typename... Arguments>
[[noreturn]] void refuse_description(const fs::path& file, fmt::format_string<Arguments...> format,
                                     Arguments&&... arguments) {
  fail(ErrorKind::kDevice, "{}: {}", file.string(), fmt::format(format, std::forward<Arguments>(arguments)...));
}

std::string text_in(const Json& object, const char* name, const fs::path& file) {
  if (!object.contains(name)) return {};
  if (!object[name].is_string()) refuse_description(file, "{}: expected text, found {}", name, object[name].dump());
  return object[name].get<std::string>();
}

bool truth_in(const Json& object, const char* name, const fs::path& file) {
  if (!object.contains(name)) return false;
  if (!object[name].is_boolean())
    refuse_description(file, "{}: expected true or false, found {}", name, object[name].dump());
  return object[name].get<bool>();
}

std::vector<std::string> texts_in(const Json& object, const char* name, const fs::path& file) {
  std::vector<std::string> texts;
  if (!object.contains(name)) return texts;
  if (!object[name].is_array()) refuse_description(file, "{}: expected a list of texts", name);
  for (const Json& text : object[name]) {
    if (!text.is_string()) refuse_description(file, "{}: expected texts, found {}", name, text.dump());
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

void expect_known(const Json& object, std::initializer_list<std::string_view> known, const fs::path& file) {
  if (!object.is_object()) refuse_description(file, "expected an object, found {}", object.dump());
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse_description(file, "{} is not known; known are {}", quoted(name), fmt::join(known, ", "));
}

// {"name": "fp8", "only": ["false"], "because": "..."}: the key beside `name` is the kind.
DescribedArgument argument_in(const Json& object, const fs::path& file) {
  using Kind = DescribedArgument::Kind;
  expect_known(object, {"name", "flag", "text", "alias", "ignored", "only", "because", "training"}, file);
  DescribedArgument argument;
  argument.name = text_in(object, "name", file);
  argument.of_training = truth_in(object, "training", file);
  size_t kinds = 0;
  for (const auto& [name, kind] :
       {std::pair{"flag", Kind::kFlag}, std::pair{"text", Kind::kText}, std::pair{"alias", Kind::kAlias},
        std::pair{"ignored", Kind::kIgnored}, std::pair{"only", Kind::kOnly}}) {
    if (!object.contains(name)) continue;
    ++kinds;
    argument.kind = kind;
    argument.text = text_in(object, kind == Kind::kOnly ? "because" : name, file);
  }
  if (argument.kind == Kind::kOnly) argument.accepted = texts_in(object, "only", file);
  if (argument.name.empty() || argument.text.empty() || kinds != 1)
    refuse_description(file,
                       "arguments: expected a name and one of flag, text, alias, ignored, only with a text, found {}",
                       object.dump());
  return argument;
}

std::shared_ptr<const DeviceDescription> read_description(const fs::path& file, const fs::path& library,
                                                          const std::string& device) {
  const Json json = parse_json(read_file(file, kLargestFile), file.string());
  // A newer plugin may say more than is known here.
  if (!json.is_object()) refuse_description(file, "expected an object, found {}", json.dump());
  auto made = std::make_shared<DeviceDescription>();
  made->device = text_in(json, "device", file);
  if (made->device != device)
    refuse_description(file, "device: expected {}, found {}", quoted(device), quoted(made->device));
  made->library = library;
  made->title = text_in(json, "title", file);
  made->loads_no_driver = truth_in(json, "loads_no_driver", file);
  made->traits = texts_in(json, "traits", file);
  made->names = texts_in(json, "names", file);
  made->prefixes = texts_in(json, "prefixes", file);
  made->variables = texts_in(json, "variables", file);
  made->arguments_title = text_in(json, "arguments_title", file);
  if (json.contains("arguments")) {
    if (!json["arguments"].is_array()) refuse_description(file, "arguments: expected a list");
    for (const Json& argument : json["arguments"]) made->arguments.push_back(argument_in(argument, file));
  }
  return made;
}

// Never given up: tables of arguments hold views of them. Null of a file that is no description, of which the first
// caller has a warning.
std::shared_ptr<const DeviceDescription> kept_description(const fs::path& file, const fs::path& library,
                                                          const std::string& device) {
  static std::mutex mutex;
  static auto& kept = *new std::map<std::pair<fs::path, fs::path>, std::shared_ptr<const DeviceDescription>>;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = kept.try_emplace({file, library});
  if (is_new) try {
      place->second = read_description(file, library, device);
    } catch (const Error& error) {
      log(LogLevel::kWarning, fmt::format("{}; the description is left out", error.what()));
    }
  return place->second;
}

std::string device_of_file(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kPrefixOfFile) || !name.ends_with(kEndingOfFile)) return {};
  return name.substr(kPrefixOfFile.size(), name.size() - kPrefixOfFile.size() - kEndingOfFile.size());
}

// As plugin_files() finds it: the first of its name.
fs::path library_of(const std::string& device, const std::vector<fs::path>& directories) {
  for (const fs::path& directory : directories) {
    const fs::path file = directory / fmt::format("{}{}.so", kPrefixOfFile, device);
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) return file;
  }
  return {};
}

}  // namespace

std::string DeviceDescription::missing() const {
  return fmt::format("the device {}{}, whose plugin libtransom_{}.so is not installed", device,
                     title.empty() ? "" : " (" + title + ")", device);
}

std::vector<std::shared_ptr<const DeviceDescription>> device_descriptions() {
  const std::vector<fs::path> directories = plugin_directories();
  std::map<std::string, fs::path> files;  // by device
  for (const fs::path& directory : directories)
    for (const fs::path& file : entries_of(directory))
      if (const std::string device = device_of_file(file); !device.empty()) files.emplace(device, file);
  std::vector<std::shared_ptr<const DeviceDescription>> all;
  for (const auto& [device, file] : files)
    if (auto found = kept_description(file, library_of(device, directories), device)) all.push_back(std::move(found));
  return all;
}

std::shared_ptr<const DeviceDescription> description_of(std::string_view device) {
  const std::string name(device.substr(0, device.find(':')));
  if (name.empty()) return nullptr;
  const std::vector<fs::path> directories = plugin_directories();
  for (const fs::path& directory : directories) {
    const fs::path file = directory / fmt::format("{}{}{}", kPrefixOfFile, name, kEndingOfFile);
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) return kept_description(file, library_of(name, directories), name);
  }
  return nullptr;
}

bool has_trait(std::string_view trait) {
  const auto description = description_of(device_name());
  return description &&
         std::find(description->traits.begin(), description->traits.end(), trait) != description->traits.end();
}

bool loads_no_driver(const fs::path& plugin) {
  if (plugin.parent_path() != own_plugin_directory()) return false;
  const fs::path file = fs::path(plugin).replace_extension(kEndingOfFile);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  const auto description = kept_description(file, plugin, plugin_name(plugin));
  return description && description->loads_no_driver;
}

}  // namespace transom
