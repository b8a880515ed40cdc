// SPDX-License-Identifier: Apache-2.0
#include "cpu/collectives/transport.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "cpu/device/error.h"

namespace transom::cpu {
namespace {

// The folder that holds this plugin, and the transports beside it.
std::string own_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&open_transport), &info) || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// By an MPI of some kind, which need not be the one that is opened here.
bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace

const TransportLibrary& open_transport(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, const TransportLibrary*> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(name); found != opened.end()) return *found->second;
  const std::string file = own_folder() + "transom_" + name + ".so";
  // Open MPI opens plugins of its own that look for its symbols among the global ones.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* reason = dlerror();
    fail(TRANSOM_UNAVAILABLE, "collectives over {} need a library that is not here: {}", name, reason ? reason : file);
  }
  using Entry = const TransportLibrary* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "transom_transport"));
  if (!entry) fail(TRANSOM_UNAVAILABLE, "{}: expected the symbol transom_transport, found none", file);
  return *(opened[name] = entry());
}

std::string choose_transport(const std::string& asked) {
  if (asked == "mpi" || asked == "gloo") return asked;
  if (!asked.empty())
    fail(TRANSOM_INVALID_ARGUMENT, "ddp_backend: expected mpi or gloo for this device, found '{}'", asked);
  if (!launched_by_mpi()) return "gloo";
  try {
    return open_transport("mpi").launched() ? "mpi" : "gloo";
  } catch (const Failure&) {
    return "gloo";
  }
}

}  // namespace transom::cpu
