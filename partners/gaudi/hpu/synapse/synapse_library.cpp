// SPDX-License-Identifier: Apache-2.0
#include "hpu/synapse/synapse_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <vector>

namespace transom::hpu {
namespace {

std::vector<std::string> candidates() {
  if (const char* named = std::getenv("TRANSOM_SYNAPSE_LIBRARY"); named && *named) return {named};
  return {"libSynapse.so", "libSynapse.so.1", "/usr/lib/habanalabs/libSynapse.so",
          "/usr/lib/habanalabs/libSynapse.so.1"};
}

// Without the path of the kernel library the graph compiler has none of its kernels.
void name_kernel_library() {
  const char* const kernels = "/usr/lib/habanalabs/libtpc_kernels.so";
  if (const char* set = std::getenv("GC_KERNEL_PATH"); set && *set) return;
  if (access(kernels, R_OK) == 0) setenv("GC_KERNEL_PATH", kernels, 1);
}

}  // namespace

transom_status status_of(synStatus status) {
  switch (status) {
    case synSuccess:
      return TRANSOM_OK;
    case synOutOfDeviceMemory:
    case synOutOfHostMemory:
    case synFailedToAllocate:
      return TRANSOM_OUT_OF_MEMORY;
    case synDeviceReset:
    case synSynapseTerminated:
    case synTimeout:
      return TRANSOM_DEVICE_LOST;
    case synNoDeviceFound:
    case synNotEnoughDevices:
    case synDeviceAlreadyAcquired:
    case synUnavailable:
    case synAllResourcesTaken:
      return TRANSOM_UNAVAILABLE;
    case synUnsupported:
      return TRANSOM_UNSUPPORTED;
    default:
      return TRANSOM_INTERNAL;
  }
}

std::shared_ptr<const SynapseLibrary> SynapseLibrary::open() {
  static std::mutex mutex;
  static std::weak_ptr<const SynapseLibrary> opened;
  const std::lock_guard lock(mutex);
  if (auto library = opened.lock()) return library;
  std::shared_ptr<SynapseLibrary> library(new SynapseLibrary);
  library->load();
  library->find_functions();
  const synStatus status = library->synInitialize();
  if (status != synSuccess && status != synAlreadyInitialized)
    fail(status_of(status) == TRANSOM_INTERNAL ? TRANSOM_UNAVAILABLE : status_of(status),
         "{} does not start: {}; look at `hl-smi` and at the driver's version", library->path_,
         library->describe(status));
  library->initialised_ = status == synSuccess;
  char text[256] = "";
  if (library->synDriverGetVersion(text, sizeof text) == synSuccess) library->version_ = text;
  opened = library;
  return library;
}

SynapseLibrary::~SynapseLibrary() {
  if (initialised_) synDestroy();
  // The library stays loaded: it has threads of its own.
}

void SynapseLibrary::load() {
  name_kernel_library();
  std::string tried;
  for (const std::string& name : candidates()) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) {
      path_ = name;
      return;
    }
    const char* reason = dlerror();
    // A library that is there but cannot be loaded says more than those that are not.
    if (name.find('/') != name.npos && access(name.c_str(), F_OK) == 0)
      fail(TRANSOM_UNAVAILABLE, "{} cannot be loaded: {}", name, reason ? reason : "no reason given");
    tried += (tried.empty() ? "" : ", ") + name;
  }
  fail(TRANSOM_UNAVAILABLE,
       "the Gaudi library was not found (looked for {}); install the Gaudi software 1.16 or later, or name the library "
       "in TRANSOM_SYNAPSE_LIBRARY",
       tried);
}

void SynapseLibrary::find_functions() {
  const auto find = [&](const char* name) { return dlsym(handle_, name); };
  if (!find("synInitialize")) fail(TRANSOM_UNAVAILABLE, "{} is no Synapse library: it has no synInitialize", path_);
  if (!find("synStreamCreateGeneric"))
    fail(TRANSOM_UNAVAILABLE, "{} has the interface of Synapse 1.0; 1.16 or later is needed", path_);
#define X(name)                                         \
  name = reinterpret_cast<decltype(name)>(find(#name)); \
  if (!name) fail(TRANSOM_UNAVAILABLE, "{} has no function {}; Synapse 1.16 or later is needed", path_, #name);
  TRANSOM_SYNAPSE_REQUIRED(X)
#undef X
#define X(name) name = reinterpret_cast<decltype(name)>(find(#name));
  TRANSOM_SYNAPSE_OPTIONAL(X)
  TRANSOM_SYNAPSE_COLLECTIVES(X)
#undef X
}

std::string SynapseLibrary::describe(synStatus status) const {
  char text[64] = "";
  if (synStatusGetBriefDescription(status, text, sizeof text) != synSuccess || !*text)
    return fmt::format("status {}", status);
  std::string result = fmt::format("{} (status {})", text, status);
  if (synGetLastErrorMessage)
    if (const char* more = synGetLastErrorMessage(); more && *more && result.find(more) == result.npos)
      result += fmt::format(": {}", more);
  return result;
}

void SynapseLibrary::expect(synStatus status, const char* what) const {
  if (status != synSuccess) fail(status_of(status), "{}: {}", what, describe(status));
}

void SynapseLibrary::require_collectives() const {
#define X(name) \
  if (!name) fail(TRANSOM_UNSUPPORTED, "{} has no function {}, so there are no collectives", path_, #name);
  TRANSOM_SYNAPSE_COLLECTIVES(X)
#undef X
}

void SynapseLibrary::expect_collective(hcclResult_t result, const char* what) const {
  if (result == hcclSuccess) return;
  const char* text = hcclGetErrorString(result);
  fail(result == hcclOutOfMemory ? TRANSOM_OUT_OF_MEMORY
       : result == hcclPortDown  ? TRANSOM_DEVICE_LOST
                                 : TRANSOM_INTERNAL,
       "{}: {} (result {})", what, text ? text : "no text", result);
}

}  // namespace transom::hpu
