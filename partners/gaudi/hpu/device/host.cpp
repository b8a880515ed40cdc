// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/host.h"

namespace transom::hpu {
namespace {

transom_host the_host{};

}  // namespace

void set_host(const transom_host& host) { the_host = host; }
const transom_host& host() { return the_host; }

void log(transom_log_level level, const std::string& text) {
  if (the_host.log) the_host.log(level, ("hpu: " + text).c_str());
}

}  // namespace transom::hpu
