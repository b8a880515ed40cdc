// SPDX-License-Identifier: Apache-2.0
// Looks at every access of a kernel to memory, where TRANSOM_EMULATED_OPENCL_CHECK is set: whether it lies in memory
// that was given out, and whether another work-item reads or writes the same place with no barrier between them.
// Work-items of different groups have none at all. What is found does not depend on the order in which work-items run
// here. Under the lock of the processor, but for what is given out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

bool checks_accesses();

// Device memory from here on, and no more.
void memory_is_given_out(const void* memory, size_t bytes);
void memory_is_taken_back(const void* memory);

// The C text before a kernel's, by which the compiler's instrumentation (-fsanitize=thread, bounds) reaches the
// variable `emulated_access` of the type of on_access.
extern const char* const kCheckedPrelude;
// Kind: 0 reads, 1 writes, 2 an index is outside of its array. Gives up the work-item, by the function that the launch
// was begun with, when something is wrong.
void on_access(void* place, uint64_t bytes, int kind);

// A range of addresses.
struct Extent {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t place) const { return place >= begin && place < end; }
};

// `group_memory`: what the kernel's library holds. `ignored`: what the kernel reads of the emulator.
void launch_begins(Extent group_memory, std::array<Extent, 2> ignored, void (*give_up)());
void group_begins(size_t group);
// All work-items that run on from here do so behind a barrier.
void barrier_passed();
void work_item_runs(size_t item, Extent stack);
// What was found first in this launch; empty if nothing was.
const std::string& found_by_checks();

}  // namespace emulator
