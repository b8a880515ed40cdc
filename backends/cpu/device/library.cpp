// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/library.h"

#include <omp.h>

#include "cpu/device/processor.h"
#include "cpu/device/threads.h"

namespace transom::cpu {

const dnnl::engine& library_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

void use_one_thread() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  static_cast<void>(done);
}

dnnl::primitive_attr library_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void execute(const dnnl::primitive& primitive, std::initializer_list<LibraryArgument> arguments,
             const dnnl::memory::desc& scratchpad) {
  use_one_thread();
  thread_local dnnl::stream stream(library_engine());
  std::unordered_map<int, dnnl::memory> bound;
  for (const LibraryArgument& argument : arguments)
    if (argument.data)
      bound.emplace(argument.name, dnnl::memory(argument.desc, library_engine(), const_cast<void*>(argument.data)));
  if (const size_t bytes = scratchpad.get_size())
    bound.emplace(DNNL_ARG_SCRATCHPAD,
                  dnnl::memory(scratchpad, library_engine(), thread_scratch(bytes, ScratchUse::kLibrary)));
  primitive.execute(stream, bound);
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) : from_(from), to_(to) {
  use_one_thread();
  const dnnl::reorder::primitive_desc made(library_engine(), from, library_engine(), to, library_attributes());
  scratchpad_ = made.scratchpad_desc();
  primitive_ = dnnl::reorder(made);
}

void Reorder::run(const void* from, void* to) const {
  execute(primitive_, {{DNNL_ARG_FROM, from_, from}, {DNNL_ARG_TO, to_, to}}, scratchpad_);
}

void append_layout(std::vector<int64_t>& key, const dnnl::memory::desc& desc) {
  for (const auto& numbers :
       {desc.get_dims(), desc.get_padded_dims(), desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs()}) {
    key.push_back(static_cast<int64_t>(numbers.size()));
    key.insert(key.end(), numbers.begin(), numbers.end());
  }
}

dnnl::memory::data_type library_dtype(transom_dtype dtype) {
  switch (dtype) {
    case TRANSOM_FLOAT32:
      return dnnl::memory::data_type::f32;
    case TRANSOM_BFLOAT16:
      return dnnl::memory::data_type::bf16;
    default:
      fail(TRANSOM_INTERNAL, "expected f32 or bf16 for the library, found {}", dtype_name(dtype));
  }
}

bool library_computes(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT32 || (dtype == TRANSOM_BFLOAT16 && processor_features().fast_bf16());
}

}  // namespace transom::cpu
