// SPDX-License-Identifier: Apache-2.0
// Convolutions by the library in its blocked layouts. The work is cut into images, and into parts of the channels (or
// of the groups) where there are too few images for the threads; every part is a primitive of one thread.
#include <algorithm>

#include "cpu/convolution/convolution_library.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {
namespace {

using dnnl::memory;
using Kind = ConvolutionKind;

// One tensor of a part: how the host has it, and how the library wants it.
struct Side {
  memory::desc host, wanted;
  int64_t part_step = 0;   // elements from one part to the next
  int64_t image_step = 0;  // elements from one image to the next
  Reorder reorder;
  bool reordered = false;
  size_t bytes = 0;  // of the wanted layout, if it differs

  void settle(const memory::desc& chosen, bool is_result) {
    wanted = chosen;
    reordered = wanted != host;
    if (!reordered) return;
    reorder = is_result ? Reorder(wanted, host) : Reorder(host, wanted);
    bytes = aligned(wanted.get_size());
  }
};

// How many equal parts the channels are cut into: a divisor of `extent` with at least `least` in each part.
int64_t choose_parts(int64_t extent, int64_t least, int64_t wanted) {
  for (int64_t parts = std::min(wanted, extent / std::max<int64_t>(least, 1)); parts > 1; --parts)
    if (extent % parts == 0) return parts;
  return 1;
}

class BlockedConvolution final : public LibraryConvolution {
 public:
  BlockedConvolution(const ConvolutionShape& s, transom_dtype dtype) : kind_(s.kind), size_(element_size(dtype)) {
    const OneThread one_thread;
    cut(s);
    describe(s, library_dtype(dtype));
    create(s);
  }

  size_t scratch_bytes() const override { return filters_.bytes() + shared_bytes(); }
  const PackedFilters& filters() const override { return filters_; }
  const char* way() const override { return "blocked"; }

  void run(const std::byte* first, const std::byte* second, std::byte* result, std::byte* scratch,
           const std::byte* packed, const ChunkReader*) const override {
    if (kind_ == Kind::kWeightGradient) return run_weight_gradient(first, second, result);
    // The weights are brought into the library's layout once, not for every image.
    if (filters_.needed() && !packed) {
      filters_.pack(second, scratch, nullptr);
      packed = scratch;
    }
    const Side& from = kind_ == Kind::kForward ? x_ : y_;
    const Side& to = kind_ == Kind::kForward ? y_ : x_;
    // So is an image that several parts read whole.
    std::byte* shared = shared_bytes() ? scratch + filters_.bytes() : nullptr;
    if (shared)
      parallel_for(static_cast<size_t>(images_), [&](size_t image) {
        bring(at(first, from, 0, static_cast<int64_t>(image)), from, shared + image * from.bytes);
      });
    parallel_for(static_cast<size_t>(images_ * parts_), [&](size_t task) {
      const auto part = static_cast<int64_t>(task) % parts_, image = static_cast<int64_t>(task) / parts_;
      std::byte* own = thread_scratch(from.bytes + to.bytes + 64);
      const std::byte* source =
          shared ? shared + static_cast<size_t>(image) * from.bytes : bring(at(first, from, part, image), from, own);
      const std::byte* weights = filters_.part(part, second, packed);
      auto* target = const_cast<std::byte*>(at(result, to, part, image));
      std::byte* made = to.reordered ? own + from.bytes : target;
      if (kind_ == Kind::kForward)
        execute(primitive_,
                {{DNNL_ARG_SRC, from.wanted, source},
                 {DNNL_ARG_WEIGHTS, w_.wanted, weights},
                 {DNNL_ARG_DST, to.wanted, made}},
                scratchpad_);
      else
        execute(primitive_,
                {{DNNL_ARG_DIFF_DST, from.wanted, source},
                 {DNNL_ARG_WEIGHTS, w_.wanted, weights},
                 {DNNL_ARG_DIFF_SRC, to.wanted, made}},
                scratchpad_);
      if (to.reordered) to.reorder.run(made, target);
    });
  }

 private:
  // Of all images in the library's layout, where every part reads the whole of one.
  size_t shared_bytes() const {
    const Side& from = kind_ == Kind::kForward ? x_ : y_;
    const bool whole = kind_ != Kind::kWeightGradient && parts_ > 1 && from.part_step == 0;
    return whole ? static_cast<size_t>(images_) * from.bytes : 0;
  }

  void run_weight_gradient(const std::byte* x, const std::byte* dy, std::byte* dw) const {
    parallel_for(static_cast<size_t>(parts_), [&](size_t index) {
      const auto part = static_cast<int64_t>(index);
      std::byte* own = thread_scratch(x_.bytes + y_.bytes + w_.bytes + 64);
      const std::byte* source = bring(at(x, x_, part, 0), x_, own);
      const std::byte* gradient = bring(at(dy, y_, part, 0), y_, own + x_.bytes);
      auto* target = const_cast<std::byte*>(at(dw, w_, part, 0));
      std::byte* made = w_.reordered ? own + x_.bytes + y_.bytes : target;
      execute(primitive_,
              {{DNNL_ARG_SRC, x_.wanted, source},
               {DNNL_ARG_DIFF_DST, y_.wanted, gradient},
               {DNNL_ARG_DIFF_WEIGHTS, w_.wanted, made}},
              scratchpad_);
      if (w_.reordered) w_.reorder.run(made, target);
    });
  }

  const std::byte* at(const std::byte* base, const Side& side, int64_t part, int64_t image) const {
    return base + static_cast<size_t>(part * side.part_step + image * side.image_step) * size_;
  }

  static const std::byte* bring(const std::byte* from, const Side& side, std::byte* to) {
    if (!side.reordered) return from;
    side.reorder.run(from, to);
    return to;
  }

  void cut(const ConvolutionShape& s) {
    const bool gradient = s.kind == Kind::kWeightGradient;
    images_ = gradient ? 1 : s.x[0];
    const auto wanted = static_cast<int64_t>(2 * thread_count());
    const int64_t needed = thread_count() == 1 ? 1 : (wanted + images_ - 1) / images_;
    if (s.groups > 1) parts_ = choose_parts(s.groups, 1, needed);
    else parts_ = choose_parts(s.kind == Kind::kInputGradient ? s.x[1] : s.y[1], 16, needed);
  }

  void describe(const ConvolutionShape& s, memory::data_type dtype) {
    const bool grouped = s.groups > 1, cut_inputs = grouped || s.kind == Kind::kInputGradient;
    const bool cut_results = grouped || s.kind != Kind::kInputGradient;
    const int64_t batch = s.x[0] / images_;
    const Shape x_strides = image_strides(s.x, s.channels_last), w_strides = dense_strides(s.w),
                y_strides = image_strides(s.y, s.channels_last);
    Shape x = s.x, w = s.w, y = s.y;
    x[0] = y[0] = batch;
    if (cut_inputs) x[1] /= parts_;
    if (cut_results) y[1] /= parts_, w[0] /= parts_;
    if (!grouped && cut_inputs) w[1] /= parts_;
    x_.part_step = cut_inputs ? x[1] * x_strides[1] : 0;
    y_.part_step = cut_results ? y[1] * y_strides[1] : 0;
    w_.part_step = cut_results ? w[0] * w_strides[0] : w[1] * w_strides[1];
    x_.image_step = batch * x_strides[0];
    y_.image_step = batch * y_strides[0];
    x_.host = memory::desc(x, dtype, x_strides);
    y_.host = memory::desc(y, dtype, y_strides);
    Shape strides = w_strides;
    if (grouped) {
      const int64_t groups = s.groups / parts_;
      w[0] /= groups;
      w.insert(w.begin(), groups);
      strides.insert(strides.begin(), w[1] * w_strides[0]);
    }
    w_.host = memory::desc(w, dtype, strides);
  }

  void create(const ConvolutionShape& s) {
    const auto any = [](const memory::desc& desc) {
      return memory::desc(desc.get_dims(), desc.get_data_type(), memory::format_tag::any);
    };
    const memory::desc x = any(x_.host), w = any(w_.host), y = any(y_.host);
    Shape dilations = s.dilations;
    for (int64_t& dilation : dilations) --dilation;  // the library counts what is left out
    const auto propagation =
        s.kind == Kind::kForward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    const dnnl::convolution_forward::primitive_desc forward(library_engine(), propagation,
                                                            dnnl::algorithm::convolution_direct, x, w, y, s.strides,
                                                            dilations, s.low, s.high, library_attributes());
    if (s.kind == Kind::kForward) {
      settle(forward.src_desc(), forward.weights_desc(), forward.dst_desc(), forward.scratchpad_desc());
      primitive_ = dnnl::convolution_forward(forward);
    } else if (s.kind == Kind::kInputGradient) {
      const dnnl::convolution_backward_data::primitive_desc made(library_engine(), dnnl::algorithm::convolution_direct,
                                                                 x, w, y, s.strides, dilations, s.low, s.high, forward,
                                                                 library_attributes());
      settle(made.diff_src_desc(), made.weights_desc(), made.diff_dst_desc(), made.scratchpad_desc());
      primitive_ = dnnl::convolution_backward_data(made);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc made(
          library_engine(), dnnl::algorithm::convolution_direct, x, w, y, s.strides, dilations, s.low, s.high, forward,
          library_attributes());
      settle(made.src_desc(), made.diff_weights_desc(), made.diff_dst_desc(), made.scratchpad_desc());
      primitive_ = dnnl::convolution_backward_weights(made);
    }
  }

  void settle(const memory::desc& x, const memory::desc& w, const memory::desc& y, const memory::desc& scratchpad) {
    x_.settle(x, kind_ == Kind::kInputGradient);
    w_.settle(w, kind_ == Kind::kWeightGradient);
    if (kind_ != Kind::kWeightGradient) filters_ = PackedFilters(w_.host, w_.wanted, parts_, w_.part_step);
    y_.settle(y, kind_ == Kind::kForward);
    scratchpad_ = scratchpad;
  }

  Kind kind_;
  size_t size_;
  int64_t images_ = 1, parts_ = 1;
  Side x_, w_, y_;
  PackedFilters filters_;
  memory::desc scratchpad_;
  dnnl::primitive primitive_;
};

}  // namespace

std::unique_ptr<LibraryConvolution> make_blocked_convolution(const ConvolutionShape& shape, transom_dtype dtype) {
  return std::make_unique<BlockedConvolution>(shape, dtype);
}

}  // namespace transom::cpu
