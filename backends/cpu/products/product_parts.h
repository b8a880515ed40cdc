// SPDX-License-Identifier: Apache-2.0
// How a product whose rows are the same in any company is dealt to the threads.
#pragma once

#include "cpu/device/threads.h"

namespace transom::cpu {

// Does work(panel) for `count` panels of a weight, of `numbers` each, in parallel.
template <typename Work>
void for_panels(int64_t count, int64_t numbers, Work&& work) {
  parallel_ranges(count, std::max<int64_t>((1 << 14) / numbers, 1), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) work(panel);
  });
}

constexpr int64_t kRowsOfChunk = 128;  // at most: they stay in the second cache while the panels go by

// Does work(row, count) for chunks of the rows [first, end), all of much the same size.
template <typename Work>
void for_even_chunks(int64_t first, int64_t end, Work&& work) {
  const int64_t count = end - first, chunks = (count + kRowsOfChunk - 1) / kRowsOfChunk;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t row = first + count * i / chunks;
    work(row, first + count * (i + 1) / chunks - row);
  }
}

// Does body(row, count, begin, end) for such chunks and parts [begin, end) of `groups` of columns, which have
// `work_of_group` multiplications a row. Many rows are dealt in stretches, so that a thread finds in its caches what it
// wrote of the product before; else columns are cut too, into parts of at least `least` multiplications where there are
// as many: enough that no thread waits long at the end.
template <typename Body>
void for_parts_of_product(int64_t rows, int64_t groups, int64_t work_of_group, int64_t least, Body&& body) {
  constexpr int64_t kLeastOfStretch = 96;
  const auto threads = static_cast<int64_t>(thread_count());
  const int64_t stretches = rows >= 2 * threads * kRowsOfChunk ? 2 * threads : threads;
  if (threads > 1 && rows >= stretches * kLeastOfStretch)
    return parallel_for(static_cast<size_t>(stretches), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      for_even_chunks(rows * i / stretches, rows * (i + 1) / stretches,
                      [&](int64_t row, int64_t count) { body(row, count, int64_t{0}, groups); });
    });
  const int64_t chunks = (rows + kRowsOfChunk - 1) / kRowsOfChunk,
                work = groups * work_of_group * ((rows + chunks - 1) / chunks);
  const int64_t parts = std::clamp<int64_t>(work / least, 1, std::min(groups, threads == 1 ? 1 : 8 * threads));
  parallel_for(static_cast<size_t>(parts * chunks), [&](size_t task) {
    const int64_t part = static_cast<int64_t>(task) % parts, chunk = static_cast<int64_t>(task) / parts;
    const int64_t row = rows * chunk / chunks;
    body(row, rows * (chunk + 1) / chunks - row, groups * part / parts, groups * (part + 1) / parts);
  });
}

}  // namespace transom::cpu
