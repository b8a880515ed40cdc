// SPDX-License-Identifier: Apache-2.0
#include "access_checker.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace emulator {
namespace {

// Who wrote and read a place last, and when. Times count barriers and groups, and never begin again: what is earlier
// than the launch is forgotten by itself, what is earlier than the group was another group's.
struct Cell {
  uint64_t written = 0, read = 0, first_read = 0;
  uint32_t writer = 0, reader = 0;
  bool several = false;  // more than one work-item read at `read`
};

constexpr uintptr_t kPageBytes = 4096, kWord = 4;

// Cells for words, or for bytes once a byte of the page was accessed alone.
struct Page {
  std::vector<Cell> cells = std::vector<Cell>(kPageBytes / kWord);
  uintptr_t granule = kWord;

  void split() {
    std::vector<Cell> bytes(kPageBytes);
    for (size_t i = 0; i < kPageBytes; ++i) bytes[i] = cells[i / kWord];
    cells = std::move(bytes);
    granule = 1;
  }
};

struct State {
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  uintptr_t last_page = 0;
  Page* last = nullptr;
  Extent last_memory, group_memory, stack;
  std::array<Extent, 2> ignored;
  void (*give_up)() = nullptr;
  uint64_t now = 0, launch = 1, group_time = 1;
  size_t group = 0;
  uint32_t item = 0;
  std::string found;
} state;

std::mutex given_out_mutex;
std::map<uintptr_t, size_t>& given_out() {
  static auto& memory = *new std::map<uintptr_t, size_t>;  // outlives what is released at the end of the process
  return memory;
}

Extent memory_of(uintptr_t place) {
  const std::lock_guard lock(given_out_mutex);
  auto after = given_out().upper_bound(place);
  if (after == given_out().begin()) return {};
  --after;
  return {after->first, after->first + after->second};
}

Page& page_of(uintptr_t place) {
  const uintptr_t number = place / kPageBytes;
  if (state.last && state.last_page == number) return *state.last;
  std::unique_ptr<Page>& page = state.pages[number];
  if (!page) page = std::make_unique<Page>();
  state.last_page = number;
  state.last = page.get();
  return *page;
}

void wrong(const std::string& what) {
  state.found = what + ", work-item " + std::to_string(state.item) + " of group " + std::to_string(state.group);
  state.give_up();
}

// The place as a reader finds it again: from the begin of its memory.
std::string where(uintptr_t place, const Extent& memory, bool group_memory) {
  return " at byte " + std::to_string(place - memory.begin) + " of " + std::to_string(memory.end - memory.begin) +
         (group_memory ? " of group memory" : "");
}

// What the cell tells against this access; null if nothing.
const char* conflict(const Cell& cell, bool writes, bool shared_by_groups) {
  const auto others = [&](uint64_t time, uint32_t who) {
    return (shared_by_groups && time >= state.launch && time < state.group_time) ||
           (time == state.now && who != state.item);
  };
  if (others(cell.written, cell.writer)) return writes ? "two write" : "one reads what another writes";
  if (!writes) return nullptr;
  if (others(cell.read, cell.reader) || (cell.read == state.now && cell.several))
    return "one writes what another reads";
  if (shared_by_groups && cell.first_read >= state.launch && cell.first_read < state.group_time)
    return "one writes what another reads";
  return nullptr;
}

void note(Cell& cell, bool writes) {
  if (writes) {
    cell.written = state.now;
    cell.writer = state.item;
    return;
  }
  if (cell.first_read < state.launch) cell.first_read = state.now;
  cell.several = cell.read == state.now && (cell.several || cell.reader != state.item);
  cell.read = state.now;
  cell.reader = state.item;
}

}  // namespace

const char* const kCheckedPrelude = R"(
void (*emulated_access)(void*, unsigned long, int);
#define UNCHECKED __attribute__((no_sanitize_thread)) void
UNCHECKED __tsan_init(void) {}
UNCHECKED __tsan_func_entry(void* p) {}
UNCHECKED __tsan_func_exit(void) {}
UNCHECKED __tsan_read1(void* p) { emulated_access(p, 1, 0); }
UNCHECKED __tsan_read2(void* p) { emulated_access(p, 2, 0); }
UNCHECKED __tsan_read4(void* p) { emulated_access(p, 4, 0); }
UNCHECKED __tsan_read8(void* p) { emulated_access(p, 8, 0); }
UNCHECKED __tsan_read16(void* p) { emulated_access(p, 16, 0); }
UNCHECKED __tsan_write1(void* p) { emulated_access(p, 1, 1); }
UNCHECKED __tsan_write2(void* p) { emulated_access(p, 2, 1); }
UNCHECKED __tsan_write4(void* p) { emulated_access(p, 4, 1); }
UNCHECKED __tsan_write8(void* p) { emulated_access(p, 8, 1); }
UNCHECKED __tsan_write16(void* p) { emulated_access(p, 16, 1); }
UNCHECKED __tsan_read_range(void* p, unsigned long bytes) { emulated_access(p, bytes, 0); }
UNCHECKED __tsan_write_range(void* p, unsigned long bytes) { emulated_access(p, bytes, 1); }
UNCHECKED __ubsan_handle_out_of_bounds(void* array, void* index) { emulated_access(index, 0, 2); }
)";

bool checks_accesses() {
  const char* asked = std::getenv("TRANSOM_EMULATED_OPENCL_CHECK");
  return asked && *asked && std::string(asked) != "0";
}

void memory_is_given_out(const void* memory, size_t bytes) {
  const std::lock_guard lock(given_out_mutex);
  given_out()[reinterpret_cast<uintptr_t>(memory)] = bytes;
}

void memory_is_taken_back(const void* memory) {
  const std::lock_guard lock(given_out_mutex);
  given_out().erase(reinterpret_cast<uintptr_t>(memory));
}

void on_access(void* pointer, uint64_t bytes, int kind) {
  const auto place = reinterpret_cast<uintptr_t>(pointer);
  if (kind == 2) return wrong("the index " + std::to_string(static_cast<int64_t>(place)) + " is outside of its array");
  if (state.stack.holds(place) || state.ignored[0].holds(place) || state.ignored[1].holds(place)) return;
  const bool writes = kind == 1, group_memory = state.group_memory.holds(place);
  Extent memory = state.group_memory;
  if (!group_memory) {
    if (!state.last_memory.holds(place)) state.last_memory = memory_of(place);
    memory = state.last_memory;
    if (!memory.holds(place) || memory.end - place < bytes)
      return wrong(std::string(writes ? "a write" : "a read") + " of " + std::to_string(bytes) +
                   " bytes outside of memory" +
                   (memory.end ? ": " + std::to_string(place - memory.begin) + " bytes from the begin of memory of " +
                                     std::to_string(memory.end - memory.begin)
                               : ""));
  }
  for (uintptr_t at = place, end = place + bytes; at < end;) {
    Page& page = page_of(at);
    if (page.granule == kWord && (at % kWord != 0 || end - at < kWord)) page.split();
    Cell& cell = page.cells[at % kPageBytes / page.granule];
    if (const char* what = conflict(cell, writes, !group_memory))
      return wrong(std::string("a race: ") + what + where(at, memory, group_memory));
    note(cell, writes);
    at += page.granule;
  }
}

void launch_begins(Extent group_memory, std::array<Extent, 2> ignored, void (*give_up)()) {
  constexpr size_t kMostPages = 20000;  // some 800 MB
  if (state.pages.size() > kMostPages) state.pages.clear(), state.last = nullptr;
  state.group_memory = group_memory;
  state.ignored = ignored;
  state.give_up = give_up;
  state.last_memory = {};
  state.launch = ++state.now;
  state.found.clear();
}

void group_begins(size_t group) {
  state.group = group;
  state.group_time = ++state.now;
}

void barrier_passed() { ++state.now; }

void work_item_runs(size_t item, Extent stack) {
  state.item = static_cast<uint32_t>(item);
  state.stack = stack;
}

const std::string& found_by_checks() { return state.found; }

}  // namespace emulator
