// SPDX-License-Identifier: Apache-2.0
// How a product whose rows are the same in any company is dealt to the threads.
#pragma once

#include "cpu/device/threads.h"

namespace transom::cpu {

// Does body(row, begin, end) for chunks of `together` rows from `row` on and parts [begin, end) of `groups` of columns,
// each of at least `least` multiplications where there are as many: enough tasks that no thread waits long at the end,
// and no more, so that a thread finds its rows in its caches.
template <typename Body>
void for_parts_of_product(int64_t rows, int64_t together, int64_t groups, int64_t work_of_group, int64_t least,
                          Body&& body) {
  const auto threads = static_cast<int64_t>(thread_count());
  const int64_t chunks = (rows + together - 1) / together, most = chunks >= 4 * threads ? 1 : 8 * threads;
  const int64_t parts = std::clamp<int64_t>(groups * work_of_group / least, 1, std::min(groups, threads == 1 ? 1 : most));
  parallel_for(static_cast<size_t>(parts * chunks), [&](size_t task) {
    const int64_t part = static_cast<int64_t>(task) % parts, row = static_cast<int64_t>(task) / parts * together;
    body(row, groups * part / parts, groups * (part + 1) / parts);
  });
}

}  // namespace transom::cpu
