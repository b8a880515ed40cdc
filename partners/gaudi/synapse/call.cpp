// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "configuration.h"
#include "faults.h"
#include "process.h"

namespace synapse_emulator {
namespace {

thread_local int t_status = synSuccess;
thread_local char t_message[1024];  // no string: calls come from the ends of static objects too, after its end
std::atomic<uint64_t> g_violations{0};

struct Log {
  std::mutex mutex;
  std::FILE* file = nullptr;
  uint64_t lines = 0;
  Log() {
    const std::string& path = configuration().log;
    if (!path.empty()) file = std::fopen(path.c_str(), "a");
  }
  void write(const std::string& line) {
    const std::lock_guard lock(mutex);
    if (!file) return;
    std::fprintf(file, "%llu %s\n", static_cast<unsigned long long>(++lines), line.c_str());
    std::fflush(file);
  }
};

Log& call_log() {
  static Log& log = *new Log;  // lives as long as the process
  return log;
}

}  // namespace

bool log_is_open() { return call_log().file != nullptr; }
uint64_t violation_count() { return g_violations; }
int last_status() { return t_status; }
const char* last_message() { return t_message; }

void log_violation(const std::string& name, const std::string& text) {
  ++g_violations;
  if (log_is_open()) call_log().write("RULE " + name + ": " + text);
}

void Call::begin() {
  Fault fault;
  const bool faulty = take_fault(function_, fault);
  if (faulty && fault.delay_seconds > 0) {
    injected_ = "slow";
    std::this_thread::sleep_for(std::chrono::duration<double>(fault.delay_seconds));
  } else if (faulty) {
    injected_ = fault.kind;
    if (fault.loses_device) process().lost = true;
    throw Failure{is_hccl() ? fault.result : fault.status, "injected fault: " + fault.kind};
  }
  if (!anytime_ && !process().initialized) {
    throw Violation{is_hccl() ? int{hcclUninitialized} : int{synUninitialized}, "initialize",
                    "called before synInitialize or after synDestroy"};
  }
}

int Call::end(int status, const std::string& text) {
  t_status = status;
  std::snprintf(t_message, sizeof t_message, "%s", status == 0 ? "" : join(function_, ": ", text).c_str());
  if (log_is_open()) {
    const char* name = is_hccl() ? result_name(status) : status_name(status);
    std::string line = join(function_, "(", arguments_.str(), ") = ", status, " ", name);
    if (!injected_.empty()) line += " FAULT " + injected_;
    if (!text.empty() && injected_.empty()) line += " BECAUSE " + text;
    call_log().write(line);
  }
  return status;
}

int Call::violated(const Violation& broken) {
  ++g_violations;
  t_status = broken.status;
  std::snprintf(t_message, sizeof t_message, "%s: %s", function_, broken.text.c_str());
  if (log_is_open()) {
    const char* name = is_hccl() ? result_name(broken.status) : status_name(broken.status);
    call_log().write(join(function_, "(", arguments_.str(), ") = ", broken.status, " ", name, " RULE ", broken.rule,
                          ": ", broken.text));
  }
  return broken.status;
}

const char* status_name(int status) {
  switch (status) {
    case 0:
      return "synSuccess";
    case 1:
      return "synInvalidArgument";
    case 3:
      return "synOutOfHostMemory";
    case 4:
      return "synOutOfDeviceMemory";
    case 5:
      return "synObjectAlreadyInitialized";
    case 6:
      return "synObjectNotInitialized";
    case 8:
      return "synNoDeviceFound";
    case 9:
      return "synDeviceTypeMismatch";
    case 15:
      return "synFailedToFreeDeviceMemory";
    case 16:
      return "synFailedNotEnoughDevicesFound";
    case 17:
      return "synDeviceReset";
    case 18:
      return "synUnsupported";
    case 20:
      return "synDeviceAlreadyAcquired";
    case 21:
      return "synNameIsAlreadyUsed";
    case 22:
      return "synBusy";
    case 23:
      return "synAllResourcesTaken";
    case 25:
      return "synInvalidTensorDimensions";
    case 26:
      return "synFail";
    case 28:
      return "synUninitialized";
    case 29:
      return "synAlreadyInitialized";
    case 30:
      return "synFailedSectionValidation";
    case 33:
      return "synInvalidEventHandle";
    case 34:
      return "synMappingNotFound";
    case 37:
      return "synFailedToSubmitWorkload";
    case 39:
      return "synInvalidTensorProperties";
    case 40:
      return "synFailHccl";
    case 41:
      return "synFailedToCollectTime";
    case 42:
      return "synTimeout";
    case 43:
      return "synResourceBadUsage";
    case 44:
      return "synNullPointer";
    default:
      return "synStatus";
  }
}

const char* result_name(int result) {
  switch (result) {
    case -1:
      return "hcclUninitialized";
    case 0:
      return "hcclSuccess";
    case 1:
      return "hcclNoDeviceFound";
    case 2:
      return "hcclUnsupported";
    case 3:
      return "hcclOutOfMemory";
    case 4:
      return "hcclSynapseError";
    case 5:
      return "hcclSystemError";
    case 6:
      return "hcclInternalError";
    case 7:
      return "hcclInvalidArgument";
    case 8:
      return "hcclInvalidUsage";
    case 9:
      return "hcclSocketError";
    case 11:
      return "hcclTryAgainError";
    case 12:
      return "hcclBusy";
    case 14:
      return "hcclStreamError";
    case 15:
      return "hcclSynapseTerminated";
    case 16:
      return "hcclPortDown";
    default:
      return "hcclResult";
  }
}

}  // namespace synapse_emulator
