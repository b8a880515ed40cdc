// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace poplar {

// The name under which reports show what a call has made.
class DebugContext {
 public:
  DebugContext() = default;
  DebugContext(const char* name) : name_(name) {}
  DebugContext(std::string name) : name_(std::move(name)) {}
  DebugContext(const DebugContext& parent, const std::string& name)
      : name_(parent.name_.empty() ? name : parent.name_ + "/" + name) {}
  std::string getPathName() const { return name_; }

 private:
  std::string name_;
};

}  // namespace poplar
