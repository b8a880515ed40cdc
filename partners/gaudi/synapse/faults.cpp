// SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

#include "configuration.h"
#include "hccl_interface.h"

namespace synapse_emulator {
namespace {

struct Request {
  std::string function;  // "*": any
  uint64_t number = 0;   // 0: every call
  uint64_t seen = 0;
  Fault fault;
};

bool set_kind(const std::string& text, Fault& fault) {
  const std::string kind = text.substr(0, text.find('='));
  fault.kind = kind;
  if (kind == "out_of_memory") {
    fault.status = synOutOfDeviceMemory;
    fault.result = hcclOutOfMemory;
  } else if (kind == "host_out_of_memory") {
    fault.status = synOutOfHostMemory;
    fault.result = hcclOutOfMemory;
  } else if (kind == "device_lost") {
    fault.status = synDeviceReset;
    fault.result = hcclSynapseError;
    fault.loses_device = true;
  } else if (kind == "failed") {
    fault.status = synFail;
    fault.result = hcclInternalError;
  } else if (kind == "timeout") {
    fault.status = synTimeout;
    fault.result = hcclTryAgainError;
  } else if (kind == "busy") {
    fault.status = synAllResourcesTaken;
    fault.result = hcclBusy;
  } else if (kind == "slow") {
    const size_t equals = text.find('=');
    fault.delay_seconds = equals == std::string::npos ? 1 : std::atof(text.c_str() + equals + 1);
    return fault.delay_seconds > 0;
  } else {
    return false;
  }
  return true;
}

// Calls that end something: "any call" leaves them out, as nobody can answer their failure.
bool ends_something(const std::string& function) {
  for (const char* word : {"Destroy", "Free", "Release", "Unmap", "Abort", "Finalize"})
    if (function.find(word) != std::string::npos) return true;
  return false;
}

struct Requests {
  std::mutex mutex;
  std::vector<Request> list;
  std::string error;

  Requests() {
    std::istringstream in(configuration().faults);
    for (std::string item; std::getline(in, item, ',');) {
      Request request;
      std::string number, kind;
      std::istringstream fields(item);
      std::getline(fields, request.function, ':');
      std::getline(fields, number, ':');
      std::getline(fields, kind, ':');
      char* end = nullptr;
      request.number = number == "every" ? 0 : std::strtoull(number.c_str(), &end, 10);
      if ((end && (*end != 0 || request.number == 0)) || !set_kind(kind, request.fault)) {
        error = "TRANSOM_SYNAPSE_FAULT: expected function:n:kind, found " + item;
        return;
      }
      list.push_back(request);
    }
  }
};

Requests& requests() {
  static Requests& result = *new Requests;  // lives as long as the process
  return result;
}

}  // namespace

bool take_fault(const char* function, Fault& fault) {
  Requests& all = requests();
  if (all.list.empty()) return false;
  const std::lock_guard lock(all.mutex);
  bool found = false;
  for (Request& request : all.list) {
    if (request.function == "*" ? ends_something(function) : request.function != function) continue;
    ++request.seen;
    if (!found && (request.number == 0 || request.number == request.seen)) {
      fault = request.fault;
      found = true;
    }
  }
  return found;
}

const std::string& fault_error() { return requests().error; }

}  // namespace synapse_emulator
