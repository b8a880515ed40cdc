// SPDX-License-Identifier: Apache-2.0
// One call of the interface: its line in the call log, the faults that were asked for, and the way from an error inside
// to the status that the caller sees.
//
//   return Call("synDeviceFree", "device", device, "address", address).run([&] { ...; return synSuccess; });
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>

#include "hccl_interface.h"

namespace synapse_emulator {

// A documented rule was broken.
struct Violation {
  int status;
  std::string rule;  // short name of the rule
  std::string text;
};

// What can happen to a caller who keeps all rules: memory is used up, a device is lost.
struct Failure {
  int status;
  std::string text;
};

// Joins its arguments to one text.
template <typename... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Throws a Violation unless `condition` holds.
template <typename... Parts>
void rule(bool condition, int status, const char* name, const Parts&... parts) {
  if (!condition) throw Violation{status, name, join(parts...)};
}

bool log_is_open();
// A line of the log that belongs to no call, or to work that runs later: "RULE name: text".
void log_violation(const std::string& name, const std::string& text);
uint64_t violation_count();

int last_status();  // of this thread
const char* last_message();

class Call {
 public:
  template <typename... Arguments>
  explicit Call(const char* function, const Arguments&... arguments) : function_(function) {
    if (log_is_open()) add(arguments...);
  }
  // Runs before synInitialize, too.
  Call& anytime() {
    anytime_ = true;
    return *this;
  }
  template <typename Body>
  int run(const Body& body) {
    try {
      begin();
      return end(body(), "");
    } catch (const Violation& broken) {
      return violated(broken);
    } catch (const Failure& failure) {
      return end(failure.status, failure.text);
    } catch (const std::bad_alloc&) {
      return end(is_hccl() ? int{hcclOutOfMemory} : int{synOutOfHostMemory}, "the host has no more memory");
    } catch (const std::exception& error) {
      return end(is_hccl() ? int{hcclInternalError} : int{synFail}, error.what());
    }
  }

 private:
  void add() {}
  template <typename Value, typename... More>
  void add(const char* name, const Value& value, const More&... more) {
    arguments_ << (arguments_.tellp() > 0 ? ", " : "") << name << '=';
    if constexpr (std::is_same_v<Value, const char*>) {
      if (value) arguments_ << '"' << value << '"';
      else arguments_ << "NULL";
    } else if constexpr (std::is_pointer_v<Value>) {
      arguments_ << static_cast<const void*>(value);
    } else {
      arguments_ << value;
    }
    add(more...);
  }
  bool is_hccl() const { return function_[0] == 'h'; }
  void begin();
  int end(int status, const std::string& text);
  int violated(const Violation& broken);

  const char* function_;
  std::ostringstream arguments_;
  std::string injected_;
  bool anytime_ = false;
};

// "synFail" for 26 and so on.
const char* status_name(int status);
const char* result_name(int result);

}  // namespace synapse_emulator
