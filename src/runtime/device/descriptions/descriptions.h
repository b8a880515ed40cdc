// SPDX-License-Identifier: Apache-2.0
// What stands beside the library of a plugin in libtransom_<device>.json: the words that users of the device know. It
// is read without loading the library, and may be there without it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"

namespace transom {

// An argument of `transom train` that the plugin contributes.
struct DescribedArgument {
  enum class Kind { kFlag, kText, kAlias, kIgnored, kOnly };
  Kind kind = Kind::kFlag;
  std::string name;                   // without dashes
  std::string text;                   // kFlag, kText: help; kAlias: the name it stands for; kIgnored, kOnly: why
  std::vector<std::string> accepted;  // kOnly: the values that change nothing
  bool of_training = false;           // means nothing where a model is evaluated
};

struct DeviceDescription {
  std::string device;                        // "cuda"
  std::string title;                         // of hardware, for messages; may be empty
  bool loads_no_driver = false;              // of a plugin of this library: it needs no trial
  std::vector<std::string> traits;           // see has_trait
  std::vector<std::string> names;            // of vendor and products, in lower case: people try them as devices
  std::vector<std::string> prefixes;         // of variables of the environment that go with a process to its machine
  std::vector<std::string> variables;        // of the environment, that the plugin's `settings` answers for
  std::string arguments_title;               // the heading of the arguments in --help
  std::vector<DescribedArgument> arguments;  // of `transom train`
  fs::path library;                          // empty: the plugin itself is not installed

  // "the device NAME (TITLE), whose plugin libtransom_NAME.so is not installed"
  std::string missing() const;
};

// Those of all plugin directories, the first of each device; each file is read once in a process, and lives as long.
// One that is no such description is named in a warning and left out.
std::vector<std::shared_ptr<const DeviceDescription>> device_descriptions();
// That of the device ("cuda", "cuda:1"); null where there is none.
std::shared_ptr<const DeviceDescription> description_of(std::string_view device);

// What the device in use does well, and others perhaps not: "stored_weights" (products with weights of 16 bits as they
// are stored), "several_texts" (texts of one step, each with a cache of its own).
bool has_trait(std::string_view trait);

// Whether the plugin of this library says that it loads no driver, in the library's own directory.
bool loads_no_driver(const fs::path& plugin);

}  // namespace transom
