// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <new>

#include "simulator/model.h"

namespace ipu_emulator {

Memory::Memory(std::shared_ptr<const GraphState> graph) : graph_(std::move(graph)), bytes_(graph_->variables.size()) {}

Memory::~Memory() {
  for (std::byte* bytes : bytes_) std::free(bytes);
}

std::byte* Memory::of(uint32_t variable) {
  std::byte*& bytes = bytes_[variable];
  if (bytes) return bytes;
  const Variable& v = graph_->variables[variable];
  const size_t size = v.bytes();
  bytes = static_cast<std::byte*>(std::aligned_alloc(64, (size + 64) / 64 * 64));
  if (!bytes) throw std::bad_alloc();
  const size_t element = size_of(v.type);
  if (v.spread_values)
    for (size_t i = 0; i < v.elements; ++i) std::memcpy(bytes + i * element, v.constant.data(), element);
  else if (!v.constant.empty()) std::memcpy(bytes, v.constant.data(), size);
  else std::memset(bytes, 0, size);
  return bytes;
}

void Memory::release(uint32_t variable) {
  std::free(bytes_[variable]);
  bytes_[variable] = nullptr;
}

void for_each_row(const View& view, const std::function<void(uint64_t first, uint32_t variable, uint64_t element,
                                                             uint64_t count, int64_t step)>& body) {
  const size_t total = view.elements();
  if (total == 0) return;
  auto [extents, steps] = joined_axes(view);
  if (extents.empty()) extents.push_back(1), steps.push_back(1);
  const size_t row = extents.back();
  const int64_t step = steps.back();
  extents.pop_back();
  steps.pop_back();
  std::vector<size_t> index(extents.size(), 0);
  int64_t at = view.offset;
  for (uint64_t first = 0;; first += row) {
    if (!view.places) {
      body(first, view.variable, static_cast<uint64_t>(at), row, step);
    } else {
      const auto& places = *view.places;
      for (size_t i = 0; i < row;) {
        const Place& place = places[static_cast<size_t>(at + static_cast<int64_t>(i) * step)];
        size_t count = 1;
        int64_t between = 1;
        while (i + count < row) {
          const Place& next = places[static_cast<size_t>(at + static_cast<int64_t>(i + count) * step)];
          const int64_t here = static_cast<int64_t>(next.element) - static_cast<int64_t>(place.element);
          if (count == 1) between = here;
          if (next.variable != place.variable || here != between * static_cast<int64_t>(count)) break;
          ++count;
        }
        body(first + i, place.variable, place.element, count, between);
        i += count;
      }
    }
    size_t axis = extents.size();
    for (; axis > 0; --axis) {
      at += steps[axis - 1];
      if (++index[axis - 1] < extents[axis - 1]) break;
      at -= steps[axis - 1] * static_cast<int64_t>(extents[axis - 1]);
      index[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

namespace {

template <typename T, bool kReads>
void move_elements(Memory& memory, const poplar::Tensor& tensor, std::byte* dense) {
  for_each_row(tensor.view(), [&](uint64_t first, uint32_t variable, uint64_t element, uint64_t count, int64_t step) {
    T* there = reinterpret_cast<T*>(memory.of(variable)) + element;
    T* here = reinterpret_cast<T*>(dense) + first;
    if (step == 1) {
      if constexpr (kReads) std::memcpy(here, there, count * sizeof(T));
      else std::memcpy(there, here, count * sizeof(T));
      return;
    }
    for (uint64_t i = 0; i < count; ++i, there += step) {
      if constexpr (kReads) here[i] = *there;
      else *there = here[i];
    }
  });
}

template <bool kReads>
void move_any(Memory& memory, const poplar::Tensor& tensor, std::byte* dense) {
  switch (size_of(tensor.elementType())) {
    case 1:
      return move_elements<uint8_t, kReads>(memory, tensor, dense);
    case 2:
      return move_elements<uint16_t, kReads>(memory, tensor, dense);
    case 4:
      return move_elements<uint32_t, kReads>(memory, tensor, dense);
    default:
      return move_elements<uint64_t, kReads>(memory, tensor, dense);
  }
}

}  // namespace

void read_tensor(Memory& memory, const poplar::Tensor& tensor, void* to) {
  move_any<true>(memory, tensor, static_cast<std::byte*>(to));
}
void write_tensor(Memory& memory, const poplar::Tensor& tensor, const void* from) {
  move_any<false>(memory, tensor, static_cast<std::byte*>(const_cast<void*>(from)));
}

Access::Access(Memory& memory, const poplar::Tensor& tensor, bool reads, bool writes)
    : memory_(memory), tensor_(tensor), writes_(writes) {
  const View& view = tensor.view();
  const size_t size = size_of(view.type);
  if (view.contiguous()) {
    data_ = memory.of(view.variable) + static_cast<size_t>(view.offset) * size;
    return;
  }
  copy_ = std::make_unique_for_overwrite<std::byte[]>(view.elements() * size + 1);
  data_ = copy_.get();
  if (reads) read_tensor(memory, tensor, data_);
}

Access::~Access() noexcept(false) {
  if (copy_ && writes_) write_tensor(memory_, tensor_, data_);
}

}  // namespace ipu_emulator
