// SPDX-License-Identifier: Apache-2.0
// The program that loads a plugin on trial, in a process of its own: probe-plugin FILE DESCRIPTOR, beside the plugins.
// It writes a byte to the descriptor when the plugin did no harm, or ends as the plugin makes it end. See probe.cpp.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "transom/device_plugin.h"

namespace {

void one_after_the_other(size_t count, void* context, transom_parallel_body body) {
  for (size_t i = 0; i < count; ++i) body(context, i);
}

// What a plugin throws ends this process.
void load(const char* file) noexcept {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const auto plugin_open =
      library ? reinterpret_cast<transom_plugin_open_function>(dlsym(library, "transom_plugin_open")) : nullptr;
  if (!plugin_open) return;  // who asked will find out by itself
  static const transom_host host = {.struct_size = sizeof(transom_host),
                                    .major = TRANSOM_PLUGIN_MAJOR,
                                    .minor = TRANSOM_PLUGIN_MINOR,
                                    .log = [](int32_t, const char*) {},
                                    .threads = 1,
                                    .parallel = one_after_the_other,
                                    .release = [](const void*, size_t) {},
                                    .exchange = nullptr,
                                    .evaluates = nullptr,
                                    .evaluate = nullptr};
  transom_plugin table{};
  table.struct_size = sizeof table;
  transom_error error{};
  uint32_t count = 0;
  if (plugin_open(&host, &table, &error) == TRANSOM_OK && table.major == TRANSOM_PLUGIN_MAJOR && table.device_count)
    table.device_count(&count, &error);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  load(words[1]);
  // Not the exit status: a host may lose it, and a plugin may end the process with any.
  const char done = 1;
  _exit(write(std::atoi(words[2]), &done, 1) == 1 ? 0 : 2);
}
