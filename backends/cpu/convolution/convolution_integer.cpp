// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes: by the library where it is exact and fast, else as products of rows by own loops. Both give
// the sums to the last bit.
#include <algorithm>
#include <cstring>

#include "cpu/convolution/convolution_library.h"
#include "cpu/device/processor.h"
#include "cpu/kernels/movement/views.h"

namespace transom::cpu {
namespace {

Kernel library_kernel(std::shared_ptr<const LibraryConvolution> made, transom_dtype dtype, bool frozen) {
  const bool packs = frozen && made->filters().needed();
  Kernel kernel;
  kernel.name = fmt::format("onednn convolution {} i8 {}{}", dtype_name(dtype), made->way(), packs ? ", packed" : "");
  kernel.has_epilogue = made->has_epilogue();
  kernel.scratch_bytes = made->scratch_bytes();
  kernel.run = [made, packs](const Arguments& arguments) {
    if (!packs)
      return made->run(arguments.inputs[0], arguments.inputs[1], arguments.outputs[0], arguments.scratch, nullptr,
                       arguments.reader);
    const auto kept =
        made->filters().keep(*arguments.input_buffers[1], arguments.input_offsets[1], arguments.inputs[1]);
    made->run(arguments.inputs[0], nullptr, arguments.outputs[0], arguments.scratch, PackedFilters::data(*kept),
              arguments.reader);
  };
  return kernel;
}

// Its loops are exact where it has VNNI, and take no zero point. Without AMX those for windows of one place, of so
// little depth, reach two thirds of the processor's peak, and those for i8 a tenth.
bool library_is_fast(const ConvolutionShape& s, int64_t zero_point) {
  if (!library_multiplies_bytes() || zero_point != 0) return false;
  if (processor_features().amx_int8 || !s.channels_last || s.groups != 1) return true;
  const auto all = [](auto begin, auto end, int64_t value) {
    return std::all_of(begin, end, [=](int64_t i) { return i == value; });
  };
  const bool one_place =
      all(s.w.begin() + 2, s.w.end(), 1) && all(s.low.begin(), s.low.end(), 0) && all(s.high.begin(), s.high.end(), 0);
  return !one_place && s.dtype != TRANSOM_INT8;
}

}  // namespace

Kernel integer_convolution(const Node& node) {
  const ConvolutionShape shape = convolution_shape(node, ConvolutionKind::kForward);
  const bool bytes = (shape.dtype == TRANSOM_UINT8 || shape.dtype == TRANSOM_INT8) &&
                     node.input(1).dtype == TRANSOM_INT8 && node.output().dtype == TRANSOM_FLOAT32;
  if (!bytes)
    fail(TRANSOM_INVALID_ARGUMENT, "expected u8 or i8 by i8 to f32, found {}, {} and {}", to_string(node.input(0)),
         to_string(node.input(1)), to_string(node.output()));
  const int64_t zero_point = node.integer("zero_point");
  const auto count = [](const Shape& extents) { return product(extents, 0, extents.size()); };
  if (count(shape.x) == 0 || count(shape.w) == 0 || count(shape.y) == 0)
    return {"fill",
            [size = node.output().bytes()](const Arguments& arguments) { std::memset(arguments.outputs[0], 0, size); }};
  const bool frozen = node.frozen(1);
  if (library_is_fast(shape, zero_point))
    if (auto made = make_banded_convolution(shape, ConvolutionTypes::of_bytes(shape.dtype)))
      return library_kernel(std::move(made), shape.dtype, frozen);
  if (auto of_tiles = integer_convolution_of_tiles(shape, zero_point, frozen)) return *of_tiles;
  return integer_convolution_of_places(shape, zero_point, frozen);
}

}  // namespace transom::cpu
