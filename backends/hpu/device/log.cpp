// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/log.h"

#include <algorithm>

namespace transom::hpu {
namespace {

transom_host the_host{};

}  // namespace

void set_host(const transom_host& host) { the_host = host; }

void log(transom_log_level level, const std::string& text) {
  if (the_host.log) the_host.log(level, ("hpu: " + text).c_str());
}

void parallel_ranges(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t pieces = std::min<int64_t>(count / std::max<int64_t>(grain, 1), 4 * int64_t{the_host.threads});
  if (pieces <= 1 || !the_host.parallel) {
    if (count > 0) body(0, count);
    return;
  }
  struct Work {
    const std::function<void(int64_t, int64_t)>& body;
    int64_t count, pieces;
  } work{body, count, pieces};
  the_host.parallel(static_cast<size_t>(pieces), &work, [](void* context, size_t i) {
    const Work& all = *static_cast<Work*>(context);
    const auto piece = static_cast<int64_t>(i);
    all.body(all.count * piece / all.pieces, all.count * (piece + 1) / all.pieces);
  });
}

}  // namespace transom::hpu
