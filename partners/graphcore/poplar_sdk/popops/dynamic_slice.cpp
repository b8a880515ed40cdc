// SPDX-License-Identifier: Apache-2.0
// Slices at places that are known at run time. What lies outside of the tensor is refused, where the machine would read
// something else.
#include "popops/DynamicSlice.hpp"

#include <algorithm>

#include "poputil/TileMapping.hpp"
#include "simulator/kernels.h"
#include "simulator/rounding.h"

namespace ipu_emulator {
namespace {

void expect(bool condition, const std::string& text) {
  if (!condition) throw poplar::graph_error(text);
}

poplar::Tensor part_of(const poplar::Tensor& t, const uint32_t* offsets, const std::vector<size_t>& dims,
                       const std::vector<size_t>& sizes) {
  poplar::Tensor part = t;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto dim = static_cast<unsigned>(dims[i]);
    expect(offsets[i] + sizes[i] <= t.dim(dim),
           "dynamicSlice: expected an offset within the tensor, found " + std::to_string(offsets[i]));
    part = part.slice(offsets[i], offsets[i] + sizes[i], dim);
  }
  return part;
}

void check_rows(const poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                const std::vector<size_t>& dims, const std::vector<size_t>& sizes) {
  expect(graph.state()->libraries.count("popops"), "expected popops::addCodelets first");
  expect(t.rank() == 2 && offsets.rank() == 2 && offsets.dim(1) == 1 && offsets.elementType() == poplar::UNSIGNED_INT &&
             dims == std::vector<size_t>{0} && sizes == std::vector<size_t>{1},
         "multiSlice: expected a matrix, offsets of unsigned int [k, 1], dims {0} and sizes {1}");
}

std::string parameters_of(const std::vector<size_t>& dims, const std::vector<size_t>& sizes) {
  Writer parameters;
  parameters.numbers(dims);
  parameters.numbers(sizes);
  return std::move(parameters.bytes);
}

// Of slices and updates of `whole`: `part` has the extents of one.
struct Cut {
  std::vector<size_t> dims, sizes;
  Cut(Reader& parameters, const poplar::Tensor& whole, const poplar::Tensor& part, const poplar::Tensor& offset)
      : dims(parameters.numbers<size_t>()), sizes(parameters.numbers<size_t>()) {
    Reader::expect(dims.size() == sizes.size() && offset.elementType() == poplar::UNSIGNED_INT &&
                       offset.numElements() == dims.size() && part.elementType() == whole.elementType(),
                   "an offset and a size for each dimension");
    std::vector<size_t> shape = whole.shape();
    for (size_t i = 0; i < dims.size(); ++i) {
      Reader::expect(dims[i] < shape.size() && sizes[i] <= shape[dims[i]], "a slice within its tensor");
      shape[dims[i]] = sizes[i];
    }
    size_t count = 1;
    for (const size_t extent : shape) count *= extent;
    Reader::expect(part.numElements() == count, "a slice of its tensor's extents");
  }
};

const RegisterKernel kSliceKernel("dynamicSlice",
                                  [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
                                    expect_tensors(step, 2, 1);
                                    const poplar::Tensor t = step.reads[0], offset = step.reads[1],
                                                         out = step.writes[0];
                                    const Cut cut(parameters, t, out, offset);
                                    return [=](Memory& memory) {
                                      const Access offsets(memory, offset, true, false);
                                      const Access to(memory, out, false, true);
                                      read_tensor(memory, part_of(t, offsets.as<uint32_t>(), cut.dims, cut.sizes),
                                                  to.data());
                                    };
                                  });

const RegisterKernel kUpdateKernel("dynamicUpdate",
                                   [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
                                     expect_tensors(step, 2, 0, 1);
                                     const poplar::Tensor s = step.reads[0], offset = step.reads[1],
                                                          t = step.updates[0];
                                     const Cut cut(parameters, t, s, offset);
                                     return [=](Memory& memory) {
                                       const Access offsets(memory, offset, true, false);
                                       const Access from(memory, s, true, false);
                                       write_tensor(memory, part_of(t, offsets.as<uint32_t>(), cut.dims, cut.sizes),
                                                    from.data());
                                     };
                                   });

const RegisterKernel kMultiSliceKernel("multiSlice", [](const Step& step, Reader&) -> std::function<void(Memory&)> {
  expect_tensors(step, 2, 1);
  const poplar::Tensor offsets = step.reads[0], t = step.reads[1], out = step.writes[0];
  Reader::expect(t.rank() == 2 && offsets.elementType() == poplar::UNSIGNED_INT &&
                     out.elementType() == t.elementType() && out.numElements() == offsets.numElements() * t.dim(1),
                 "rows of a matrix");
  const size_t count = offsets.numElements(), row = t.dim(1);
  return [=](Memory& memory) {
    const Access places(memory, offsets, true, false);
    const Access to(memory, out, false, true);
    const size_t bytes = row * size_of(t.elementType());
    for (size_t i = 0; i < count; ++i) {
      const uint32_t place = places.as<uint32_t>()[i];
      expect(place < t.dim(0),
             "multiSlice: expected a row below " + std::to_string(t.dim(0)) + ", found " + std::to_string(place));
      read_tensor(memory, t.slice(place, place + 1, 0), to.as<std::byte>() + i * bytes);
    }
  };
});

const RegisterKernel kMultiUpdateKernel(
    "multiUpdateAdd", [](const Step& step, Reader&) -> std::function<void(Memory&)> {
      expect_tensors(step, 3, 0, 1);
      const poplar::Tensor s = step.reads[0], offsets = step.reads[1], scale = step.reads[2], t = step.updates[0];
      const poplar::Type type = t.elementType();
      Reader::expect((type == poplar::FLOAT || type == poplar::HALF) && s.elementType() == type &&
                         scale.elementType() == type && scale.numElements() == 1 && t.rank() == 2 &&
                         offsets.elementType() == poplar::UNSIGNED_INT &&
                         s.numElements() == offsets.numElements() * t.dim(1),
                     "rows of a matrix, and a scale");
      const size_t count = offsets.numElements(), row = t.dim(1);
      return [=](Memory& memory) {
        const Access rows(memory, t, true, true), updates(memory, s, true, false), places(memory, offsets, true, false),
            factor(memory, scale, true, false);
        Rounding rounding(memory);
        for (size_t i = 0; i < count; ++i) {
          const uint32_t place = places.as<uint32_t>()[i];
          expect(place < t.dim(0), "multiUpdateAdd: expected a row below " + std::to_string(t.dim(0)) + ", found " +
                                       std::to_string(place));
          if (type == poplar::FLOAT) {
            const float by = *factor.as<float>();
            float* to = rows.as<float>() + place * row;
            const float* from = updates.as<float>() + i * row;
            for (size_t j = 0; j < row; ++j) to[j] += by * from[j];
          } else {
            const float by = from_half(*factor.as<uint16_t>());
            uint16_t* to = rows.as<uint16_t>() + place * row;
            const uint16_t* from = updates.as<uint16_t>() + i * row;
            for (size_t j = 0; j < row; ++j) to[j] = rounding(from_half(to[j]) + by * from_half(from[j]));
          }
        }
      };
    });

}  // namespace
}  // namespace ipu_emulator

namespace popops {

using namespace ipu_emulator;

poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offset,
                            const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                            const poplar::OptionFlags&) {
  expect(offset.elementType() == poplar::UNSIGNED_INT && offset.numElements() == dims.size() &&
             dims.size() == sizes.size(),
         "dynamicSlice: expected an offset of unsigned int and a size for each dimension");
  std::vector<size_t> shape = t.shape();
  for (size_t i = 0; i < dims.size(); ++i) shape.at(dims[i]) = sizes[i];
  poplar::Tensor out = graph.addVariable(t.elementType(), shape, debugContext);
  poputil::mapTensorLinearly(graph, out);
  if (out.numElements() == 0) return out;
  ::ipu_emulator::Operation operation;
  operation.name = debugContext.getPathName() + "/dynamicSlice";
  operation.codelet = "dynamicSlice " + t.elementType().toString();
  operation.reads = {t, offset};
  operation.writes = {out};
  operation.cycles = [](uint64_t count) { return 80 + count; };
  operation.kernel = "dynamicSlice";
  operation.parameters = parameters_of(dims, sizes);
  add_operation(graph, prog, std::move(operation));
  return out;
}

void dynamicUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s, const poplar::Tensor& offset,
                   const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                   const poplar::OptionFlags&) {
  expect(offset.elementType() == poplar::UNSIGNED_INT && offset.numElements() == dims.size() &&
             dims.size() == sizes.size() && s.elementType() == t.elementType(),
         "dynamicUpdate: expected an offset of unsigned int and a size for each dimension, and one type");
  if (s.numElements() == 0) return;
  ::ipu_emulator::Operation operation;
  operation.name = debugContext.getPathName() + "/dynamicUpdate";
  operation.codelet = "dynamicUpdate " + t.elementType().toString();
  operation.reads = {s, offset};
  operation.updates = {t};
  operation.cycles = [](uint64_t count) { return 80 + count; };
  operation.kernel = "dynamicUpdate";
  operation.parameters = parameters_of(dims, sizes);
  add_operation(graph, prog, std::move(operation));
}

poplar::Tensor multiSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                          const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                          poplar::program::Sequence& prog, const SlicePlan&, const poplar::OptionFlags&,
                          const poplar::DebugContext& debugContext) {
  check_rows(graph, t, offsets, dims, sizes);
  const size_t count = offsets.dim(0), row = t.dim(1);
  poplar::Tensor out = graph.addVariable(t.elementType(), {count, 1, row}, debugContext);
  poputil::mapTensorLinearly(graph, out);
  if (out.numElements() == 0) return out;
  ::ipu_emulator::Operation operation;
  operation.name = debugContext.getPathName() + "/multiSlice";
  operation.codelet = "multiSlice " + t.elementType().toString();
  operation.reads = {offsets};
  operation.writes = {out};
  // Every tile looks through the offsets for rows that it holds.
  operation.cycles = [count](uint64_t elements) { return 60 + 4 * count + elements; };
  operation.kernel = "multiSlice";
  add_operation(graph, prog, std::move(operation));
  prog.step()->children.back()->reads.push_back(t);
  return out;
}

void multiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                    const poplar::Tensor& offsets, const poplar::Tensor& scale, const std::vector<std::size_t>& dims,
                    const std::vector<std::size_t>& sizes, poplar::program::Sequence& prog, const SlicePlan&,
                    const poplar::OptionFlags&, const poplar::DebugContext& debugContext) {
  check_rows(graph, t, offsets, dims, sizes);
  const size_t count = offsets.dim(0), row = t.dim(1);
  const poplar::Type type = t.elementType();
  expect(type == poplar::FLOAT || type == poplar::HALF, "multiUpdateAdd: expected float or half");
  expect(s.elementType() == type && scale.elementType() == type && scale.numElements() == 1 &&
             s.numElements() == count * row,
         "multiUpdateAdd: expected rows [k, 1, row] and a scale of the matrix' type");
  if (s.numElements() == 0) return;
  ::ipu_emulator::Operation operation;
  operation.name = debugContext.getPathName() + "/multiUpdateAdd";
  operation.codelet = "multiUpdateAdd " + type.toString();
  operation.reads = {s, offsets, scale};
  operation.updates = {t};
  operation.cycles = [count](uint64_t) { return 60 + 8 * count; };
  operation.kernel = "multiUpdateAdd";
  add_operation(graph, prog, std::move(operation));
}

}  // namespace popops
