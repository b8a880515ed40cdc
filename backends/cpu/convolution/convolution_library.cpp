// SPDX-License-Identifier: Apache-2.0
#include "cpu/convolution/convolution_library.h"

#include <cstdlib>
#include <new>

#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {
namespace {

struct KeptFilters : PackedWeight {
  std::unique_ptr<std::byte, decltype(&std::free)> parts{nullptr, &std::free};
};

size_t element_bytes(const dnnl::memory::desc& desc) { return dnnl::memory::data_type_size(desc.get_data_type()); }

}  // namespace

ConvolutionTypes ConvolutionTypes::of_bytes(transom_dtype x) {
  ConvolutionTypes types(TRANSOM_FLOAT32);
  types.x = x == TRANSOM_INT8 ? dnnl::memory::data_type::s8 : dnnl::memory::data_type::u8;
  types.w = dnnl::memory::data_type::s8;
  return types;
}

PackedFilters::PackedFilters(const dnnl::memory::desc& host, const dnnl::memory::desc& wanted, int64_t parts,
                             int64_t step, Transform transform)
    : parts_(parts),
      step_(static_cast<size_t>(step) * element_bytes(host)),
      reordered_(transform || host != wanted),
      transform_(std::move(transform)) {
  if (!reordered_) return;
  reorder_ = Reorder(host, wanted);
  bytes_ = aligned(wanted.get_size());
  // Weights of bytes differ by what stands behind them for signed images, which shows in their size.
  key_ = {-4, parts, static_cast<int64_t>(bytes_), static_cast<int64_t>(wanted.get_data_type())};
  append_layout(key_, host);
  append_layout(key_, wanted);
}

void PackedFilters::pack(const std::byte* weights, std::byte* to, std::byte* temporary) const {
  if (transform_) {
    transform_(weights, temporary);
    weights = temporary;
  }
  parallel_for(static_cast<size_t>(parts_),
               [&](size_t part) { reorder_.run(weights + part * step_, to + part * bytes_); });
}

std::shared_ptr<PackedWeight> PackedFilters::keep(transom_buffer& buffer, size_t offset,
                                                  const std::byte* weights) const {
  return packed_copy(buffer, offset, key_, [&] {
    auto made = std::make_shared<KeptFilters>();
    made->parts.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes())));
    if (!made->parts) throw std::bad_alloc();
    const auto temporary = std::make_unique_for_overwrite<std::byte[]>(temporary_bytes());
    pack(weights, made->parts.get(), temporary.get());
    return made;
  });
}

const std::byte* PackedFilters::data(const PackedWeight& kept) {
  return static_cast<const KeptFilters&>(kept).parts.get();
}

ChannelsLastCopies::ChannelsLastCopies(const Shape& x, const Shape& y, bool channels_last) {
  if (channels_last) return;
  const auto elements = [](const Shape& shape) { return static_cast<size_t>(product(shape, 0, shape.size())); };
  const auto image = [](Shape shape, bool last) {
    shape[0] = 1;
    return dnnl::memory::desc(shape, dnnl::memory::data_type::f32, image_strides(shape, last));
  };
  images_ = static_cast<size_t>(x[0]), x_ = elements(x), y_ = elements(y);
  to_last_ = Reorder(image(x, false), image(x, true));
  from_last_ = Reorder(image(y, true), image(y, false));
}

void ChannelsLastCopies::run(const std::byte* x, std::byte* y, std::byte* scratch,
                             const std::function<void(const float*, float*)>& compute) const {
  if (images_ == 0) return compute(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y));
  float *last_x = reinterpret_cast<float*>(scratch), *last_y = last_x + x_;
  const size_t x_step = x_ / images_, y_step = y_ / images_;
  parallel_for(images_, [&](size_t i) { to_last_.run(x + i * x_step * sizeof(float), last_x + i * x_step); });
  compute(last_x, last_y);
  parallel_for(images_, [&](size_t i) { from_last_.run(last_y + i * y_step, y + i * y_step * sizeof(float)); });
}

Shape image_strides(const Shape& shape, bool channels_last) {
  if (!channels_last) return dense_strides(shape);
  Shape strides(shape.size(), 1);
  int64_t step = shape[1];
  for (size_t axis = shape.size(); axis-- > 2;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  strides[0] = step;
  return strides;
}

namespace {

// Tells of the chunks of an image where they are among those of all.
class ImageReader final : public ChunkReader {
 public:
  ImageReader(const ChunkReader* all, int64_t first) : all_(all), first_(first) {}
  void read(const Chunk& chunk) const override {
    Chunk moved = chunk;
    moved.begin += first_;
    all_->read(moved);
  }

 private:
  const ChunkReader* all_;
  int64_t first_;
};

}  // namespace

Kernel library_convolution(const ConvolutionShape& whole, bool frozen, bool apart) {
  ConvolutionShape shape = whole;  // of one call
  const int64_t calls = apart ? whole.x[0] : 1;
  if (apart) shape.x[0] = shape.y[0] = 1;
  const bool wide = !library_computes(shape.dtype);
  const transom_dtype computed = wide ? TRANSOM_FLOAT32 : shape.dtype;
  std::shared_ptr<const LibraryConvolution> made = make_winograd_convolution(shape, computed);
  if (!made) made = make_depthwise_convolution(shape, computed);
  if (!made) made = make_banded_convolution(shape, ConvolutionTypes(computed));
  if (!made) made = make_blocked_convolution(shape, computed);
  const auto elements = [](const Shape& extents) { return product(extents, 0, extents.size()); };
  const int64_t counts[3] = {elements(whole.input(0)), elements(whole.input(1)), elements(whole.result())};
  const int64_t from_step = elements(shape.input(0)), to_step = elements(shape.result());
  size_t bytes[3] = {};
  for (size_t i = 0; wide && i < 3; ++i) bytes[i] = aligned(static_cast<size_t>(counts[i]) * sizeof(float));
  const transom_dtype dtype = shape.dtype;
  const bool packs = frozen && !wide && made->filters().needed();
  Kernel kernel;
  kernel.name =
      fmt::format("{} convolution {} {}{}", made->by(), dtype_name(computed), made->way(), packs ? ", packed" : "");
  kernel.has_epilogue = !wide && made->has_epilogue();
  kernel.scratch_bytes = bytes[0] + bytes[1] + bytes[2] + made->scratch_bytes();
  const size_t number = element_size(computed);
  const auto run = [=](const std::byte* first, const std::byte* second, std::byte* result, std::byte* scratch,
                       const std::byte* packed, const ChunkReader* reader) {
    for (int64_t call = 0; call < calls; ++call) {
      const ImageReader of_image(reader, call * to_step);
      made->run(first + static_cast<size_t>(call * from_step) * number, second,
                result + static_cast<size_t>(call * to_step) * number, scratch, packed, reader ? &of_image : nullptr);
    }
  };
  kernel.run = [=](const Arguments& arguments) {
    if (packs) {
      const auto kept =
          made->filters().keep(*arguments.input_buffers[1], arguments.input_offsets[1], arguments.inputs[1]);
      return run(arguments.inputs[0], nullptr, arguments.outputs[0], arguments.scratch, PackedFilters::data(*kept),
                 arguments.reader);
    }
    std::byte* scratch = arguments.scratch;
    const std::byte* inputs[2] = {arguments.inputs[0], arguments.inputs[1]};
    std::byte* result = arguments.outputs[0];
    for (size_t i = 0; wide && i < 2; ++i) {
      widen(dtype, inputs[i], reinterpret_cast<float*>(scratch), counts[i]);
      inputs[i] = scratch;
      scratch += bytes[i];
    }
    if (wide) result = scratch;
    run(inputs[0], inputs[1], result, scratch + bytes[2], nullptr, arguments.reader);
    if (wide) narrow(dtype, reinterpret_cast<const float*>(result), arguments.outputs[0], counts[2]);
  };
  return kernel;
}

}  // namespace transom::cpu
