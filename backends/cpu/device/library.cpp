// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/library.h"

#include <omp.h>

#include <optional>

#include "cpu/device/processor.h"
#include "cpu/device/threads.h"

namespace transom::cpu {

namespace {

// Of ours and of dnnl.h; the last one has everything.
dnnl::cpu_isa library_isa(IsaLevel level) {
  switch (level) {
    case IsaLevel::kPortable:
      return dnnl::cpu_isa::sse41;
    case IsaLevel::kAvx2:
      return dnnl::cpu_isa::avx2;
    case IsaLevel::kAvx2Vnni:
      return dnnl::cpu_isa::avx2_vnni;
    case IsaLevel::kAvx512:
      return dnnl::cpu_isa::avx512_core;
    case IsaLevel::kAvx512Vnni:
      return dnnl::cpu_isa::avx512_core_vnni;
    case IsaLevel::kAvx512Bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case IsaLevel::kAmx:
      break;
  }
  return dnnl::cpu_isa::avx512_core_amx;
}

// What the library uses. It is limited once, before it makes anything; where the host's own use of it came before that,
// what it then says counts.
int effective_isa() {
  static const int effective = [] {
    if (const std::optional<IsaLevel> limit = isa_limit()) dnnl::set_max_cpu_isa(library_isa(*limit));
    return static_cast<int>(dnnl::get_effective_cpu_isa());
  }();
  return effective;
}

bool library_has(dnnl::cpu_isa isa) { return (effective_isa() & static_cast<int>(isa)) == static_cast<int>(isa); }

}  // namespace

const dnnl::engine& library_engine() {
  static const dnnl::engine engine = [] {
    effective_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

dnnl::primitive_attr library_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void execute(const dnnl::primitive& primitive, std::initializer_list<LibraryArgument> arguments,
             const dnnl::memory::desc& scratchpad) {
  const OneThread one_thread;
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
  const OneThread one_thread;
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
  return dtype == TRANSOM_FLOAT32 || (dtype == TRANSOM_BFLOAT16 && processor_features().fast_bf16() &&
                                      library_has(dnnl::cpu_isa::avx512_core_bf16));
}

bool library_multiplies_bytes() { return library_has(dnnl::cpu_isa::avx512_core_vnni); }

bool library_adds_in_one_order() { return library_has(dnnl::cpu_isa::avx512_core); }

}  // namespace transom::cpu
