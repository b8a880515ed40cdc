// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace poplar {

// Options by name, as texts. Who reads them refuses unknown names.
class OptionFlags {
 public:
  OptionFlags() = default;
  OptionFlags(std::initializer_list<std::pair<const std::string, std::string>> options) : options_(options) {}
  void set(std::string name, std::string value) { options_[std::move(name)] = std::move(value); }
  auto begin() const { return options_.begin(); }
  auto end() const { return options_.end(); }
  std::string at(const std::string& name, const std::string& otherwise) const {
    const auto found = options_.find(name);
    return found == options_.end() ? otherwise : found->second;
  }

 private:
  std::map<std::string, std::string> options_;
};

}  // namespace poplar
