// SPDX-License-Identifier: Apache-2.0
// oneDNN as this plugin uses it: single-threaded calls from inside the host's pool, scratch memory of the calling
// thread. (The library's own scratch memory belongs to the thread that made the primitive, and would be missing in
// others.) TRANSOM_CPU_ISA limits it as it limits our own loops, and goes before ONEDNN_MAX_CPU_ISA.
#pragma once

#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "cpu/device/types.h"

namespace transom::cpu {

const dnnl::engine& library_engine();

// While it lives, the library uses one thread for what the calling thread asks; primitives remember the number from
// when they are made. The thread may be the host's, so its own number of OpenMP threads is set again at the end.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Attributes with the scratch memory left to us.
dnnl::primitive_attr library_attributes();

struct LibraryArgument {
  int name;  // DNNL_ARG_...
  dnnl::memory::desc desc;
  const void* data;
};

// Runs the primitive in the calling thread; `scratchpad` is what its descriptor asks for.
void execute(const dnnl::primitive& primitive, std::initializer_list<LibraryArgument> arguments,
             const dnnl::memory::desc& scratchpad);

// Copies between two layouts of one tensor, in the calling thread.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  void run(const void* from, void* to) const;

 private:
  dnnl::memory::desc from_, to_, scratchpad_;
  dnnl::reorder primitive_;
};

// Names the layout, in the key of something packed.
void append_layout(std::vector<int64_t>& key, const dnnl::memory::desc& desc);

dnnl::memory::data_type library_dtype(transom_dtype dtype);

// Whether the library computes on this type here, and faster than by way of f32.
bool library_computes(transom_dtype dtype);

// Whether its products of u8 and i8 are exact. Without VNNI it adds pairs of products in 16 bits, which saturate.
bool library_multiplies_bytes();

// Whether its products add up in one order for a matrix as it is and for a packed one.
bool library_adds_in_one_order();

}  // namespace transom::cpu
