// SPDX-License-Identifier: Apache-2.0
// The forward pass with the channels last, the layout that the library's kernels for matrix products want. Images are
// cut into bands of rows, or of places where the window is one place: a band of the result is one stretch of memory,
// small enough to stay in the second cache for who reads it next. Where the rows do not share out evenly, the result's
// channels are cut as well. The cut depends on the shape and the number of threads only, not on the host's layout.
#include <algorithm>
#include <array>
#include <map>

#include "cpu/convolution/convolution_library.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kBandBytes = 256 << 10, kBandBytesOfIntegers = 512 << 10;  // what goes in and out is a byte
constexpr int64_t kSmallWork = 1 << 20;  // multiplications that are not worth a second thread

// The library's call for bands of one geometry.
struct Piece {
  dnnl::primitive primitive;
  memory::desc x, w, y, scratchpad;
  Reorder x_reorder, y_reorder;
  bool x_moves = false, y_moves = false;
  size_t x_bytes = 0, y_bytes = 0;
};

// Rows of one band: those of the result, and those of x that they need.
struct Band {
  int64_t first, rows;  // of the result
  int64_t x_first, x_rows, low, high;
};

class BandedConvolution final : public LibraryConvolution {
 public:
  // `equal`: all bands have as many rows, for kernels of the library that want another layout of the weights where
  // there are fewer.
  BandedConvolution(const ConvolutionShape& shape, const ConvolutionTypes& types, bool equal)
      : s_(flattened(shape)), types_(types), equal_(equal) {
    const OneThread one_thread;
    cut();
    x_strides_ = image_strides(s_.x, s_.channels_last);
    y_strides_ = image_strides(s_.y, s_.channels_last);
    for (const Band& band : bands_) {
      const std::array<int64_t, 4> key{band.rows, band.x_rows, band.low, band.high};
      auto found = pieces_.find(key);
      if (found == pieces_.end()) found = pieces_.emplace(key, make_piece(band)).first;
      of_band_.push_back(&found->second);
    }
    const int64_t step = s_.w[0] / parts_ * dense_strides(s_.w)[0];
    filters_ = PackedFilters(weights_of_part(), of_band_[0]->w, parts_, step);
  }

  bool fast() const { return fast_; }
  size_t scratch_bytes() const override { return filters_.bytes(); }
  const PackedFilters& filters() const override { return filters_; }
  bool has_epilogue() const override { return true; }
  const char* way() const override { return "channels last"; }

  void run(const std::byte* x, const std::byte* weights, std::byte* y, std::byte* scratch, const std::byte* packed,
           const ChunkReader* reader) const override {
    if (filters_.needed() && !packed) {
      filters_.pack(weights, scratch, nullptr);
      packed = scratch;
    }
    const size_t x_size = memory::data_type_size(types_.x), y_size = memory::data_type_size(types_.y);
    const auto bands = static_cast<int64_t>(bands_.size());
    // Bands of one image follow each other, so that its rows are still in the caches.
    parallel_for(static_cast<size_t>(s_.x[0] * bands * parts_), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      const int64_t part = i % parts_, image = i / parts_ / bands;
      const auto index = static_cast<size_t>(i / parts_ % bands);
      const Band& band = bands_[index];
      const Piece& piece = *of_band_[index];
      const int64_t channels = s_.y[1] / parts_;
      const int64_t from = image * x_strides_[0] + band.x_first * x_strides_[2];
      const int64_t to = image * y_strides_[0] + part * channels * y_strides_[1] + band.first * y_strides_[2];
      std::byte* own = thread_scratch(piece.x_bytes + piece.y_bytes + 64);
      const std::byte* source = x + static_cast<size_t>(from) * x_size;
      std::byte* target = y + static_cast<size_t>(to) * y_size;
      if (piece.x_moves) {
        piece.x_reorder.run(source, own);
        source = own;
      }
      // What only the reader sees stays with the thread: with the channels last a band is as the library makes it.
      const bool stays = reader && s_.channels_last;
      std::byte* made = stays           ? thread_scratch(aligned(piece.y.get_size()), ScratchUse::kChunk)
                        : piece.y_moves ? own + piece.x_bytes
                                        : target;
      execute(piece.primitive,
              {{DNNL_ARG_SRC, piece.x, source},
               {DNNL_ARG_WEIGHTS, piece.w, filters_.part(part, weights, packed)},
               {DNNL_ARG_DST, piece.y, made}},
              piece.scratchpad);
      if (piece.y_moves && !stays) piece.y_reorder.run(made, target);
      if (!reader) return;
      Chunk chunk = chunk_at(to, band, channels);
      if (stays) chunk.data = made, chunk.element_bytes = static_cast<int64_t>(y_size);
      reader->read(chunk);
    });
  }

 private:
  // A window of one place sees no rows: all places of an image are one axis.
  static ConvolutionShape flattened(ConvolutionShape s) {
    const auto all = [](auto begin, auto end, int64_t value) {
      return std::all_of(begin, end, [=](int64_t i) { return i == value; });
    };
    if (s.groups > 1 || !all(s.w.begin() + 2, s.w.end(), 1) || !all(s.strides.begin(), s.strides.end(), 1) ||
        !all(s.low.begin(), s.low.end(), 0) || !all(s.high.begin(), s.high.end(), 0))
      return s;
    const int64_t places = product(s.x, 2, s.x.size());
    s.x = {s.x[0], s.x[1], places, 1};
    s.y = {s.y[0], s.y[1], places, 1};
    s.w = {s.w[0], s.w[1], 1, 1};
    s.strides = s.dilations = {1, 1};
    s.low = s.high = {0, 0};
    return s;
  }

  // How well `tasks` of one size keep the threads busy, if they hold `work` together.
  static double balance(int64_t work, int64_t tasks, int64_t each) {
    const auto threads = static_cast<int64_t>(thread_count());
    const int64_t longest = (tasks + threads - 1) / threads * each;
    return static_cast<double>(work) / static_cast<double>(threads * longest);
  }

  void cut() {
    const auto threads = static_cast<int64_t>(thread_count());
    const int64_t images = s_.x[0], rows = s_.y[2], result_bytes = product(s_.y, 1, s_.y.size()) * 4;
    const bool integers = memory::data_type_size(types_.x) == 1;
    const int64_t least = std::clamp<int64_t>(result_bytes / (integers ? kBandBytesOfIntegers : kBandBytes), 1, rows);
    const int64_t work = product(s_.y, 0, s_.y.size()) * product(s_.w, 1, s_.w.size());
    int64_t chosen = least;
    double best = 0;
    if (equal_) {
      while (rows % chosen != 0 || (images * chosen % threads != 0 && chosen < rows)) ++chosen;
      return make_bands(rows / chosen);
    }
    for (int64_t count = least; threads > 1 && work > kSmallWork && count <= std::min(least + 2 * threads, rows);
         ++count) {
      const int64_t step = (rows + count - 1) / count;
      const double reached = balance(images * rows, images * ((rows + step - 1) / step), step);
      if (reached > best + 0.02) best = reached, chosen = count;
    }
    if (best > 0 && best < 0.92 && s_.groups == 1 && s_.y[1] % (16 * threads) == 0 &&
        (images * least * threads) % threads == 0) {
      parts_ = threads;
      chosen = least;
    }
    make_bands((rows + chosen - 1) / chosen);
    const bool whole = std::any_of(bands_.begin(), bands_.end(), [&](const Band& band) {
      const int64_t window = (s_.w[2] - 1) * s_.dilations[0] + 1;
      return band.x_rows <= 0 || band.low >= window || band.high >= window;
    });
    if (whole) make_bands(rows);
  }

  void make_bands(int64_t step) {
    bands_.clear();
    const int64_t rows = s_.y[2];
    for (int64_t first = 0; first < rows; first += step) {
      Band band{first, std::min(step, rows - first), 0, 0, 0, 0};
      const int64_t begin = first * s_.strides[0] - s_.low[0];
      const int64_t end = (first + band.rows - 1) * s_.strides[0] - s_.low[0] + (s_.w[2] - 1) * s_.dilations[0] + 1;
      band.x_first = std::clamp<int64_t>(begin, 0, s_.x[2]);
      band.x_rows = std::clamp<int64_t>(end, 0, s_.x[2]) - band.x_first;
      band.low = std::max<int64_t>(-begin, 0);
      band.high = std::max<int64_t>(end - s_.x[2], 0);
      bands_.push_back(band);
    }
  }

  memory::desc weights_of_part() const {
    Shape w = s_.w, strides = dense_strides(s_.w);
    w[0] /= parts_;
    if (s_.groups > 1) {
      w[0] /= s_.groups;
      w.insert(w.begin(), s_.groups);
      strides.insert(strides.begin(), w[1] * strides[0]);
    }
    return memory::desc(w, types_.w, strides);
  }

  Piece make_piece(const Band& band) {
    Shape x = s_.x, y = s_.y, low = s_.low, high = s_.high, dilations = s_.dilations;
    x[0] = y[0] = 1;
    x[2] = band.x_rows;
    y[2] = band.rows;
    y[1] /= parts_;
    low[0] = band.low;
    high[0] = band.high;
    for (int64_t& dilation : dilations) --dilation;  // the library counts what is left out
    Piece piece;
    piece.x = memory::desc(x, types_.x, image_strides(x, true));
    piece.y = memory::desc(y, types_.y, image_strides(y, true));
    const memory::desc host = weights_of_part();
    const bool only = pieces_.empty();  // the others take the weights as the first one wants them
    const memory::desc weights =
        only ? memory::desc(host.get_dims(), types_.w, memory::format_tag::any) : pieces_.begin()->second.w;
    const dnnl::convolution_forward::primitive_desc made(library_engine(), dnnl::prop_kind::forward_inference,
                                                         dnnl::algorithm::convolution_direct, piece.x, weights, piece.y,
                                                         s_.strides, dilations, low, high, library_attributes());
    const std::string name = made.impl_info_str();
    fast_ = fast_ && name.find("ref") == name.npos && name.find("gemm") == name.npos;
    piece.primitive = dnnl::convolution_forward(made);
    piece.w = made.weights_desc();
    piece.scratchpad = made.scratchpad_desc();
    // The host may have the places of a channel behind each other, or the channels of other parts between these.
    piece.x_moves = !s_.channels_last;
    piece.y_moves = !s_.channels_last || parts_ > 1;
    if (piece.x_moves) {
      piece.x_reorder = Reorder(memory::desc(x, types_.x, x_strides_), piece.x);
      piece.x_bytes = aligned(piece.x.get_size());
    }
    if (piece.y_moves) {
      piece.y_reorder = Reorder(piece.y, memory::desc(y, types_.y, y_strides_));
      piece.y_bytes = aligned(piece.y.get_size());
    }
    return piece;
  }

  Chunk chunk_at(int64_t begin, const Band& band, int64_t channels) const {
    const int64_t places = band.rows * product(s_.y, 3, s_.y.size());
    if (!s_.channels_last) return {begin, places, y_strides_[1], channels};
    if (parts_ == 1) return {begin, places * channels};
    return {begin, channels, s_.y[1], places};
  }

  ConvolutionShape s_;
  ConvolutionTypes types_;
  bool equal_;
  int64_t parts_ = 1;
  bool fast_ = true;
  Shape x_strides_, y_strides_;
  std::vector<Band> bands_;
  std::map<std::array<int64_t, 4>, Piece> pieces_;
  std::vector<const Piece*> of_band_;
  PackedFilters filters_;
};

}  // namespace

std::unique_ptr<LibraryConvolution> make_banded_convolution(const ConvolutionShape& shape,
                                                            const ConvolutionTypes& types) {
  const bool depthwise = shape.groups == shape.x[1] && shape.groups == shape.y[1];
  const bool floats = types.x != memory::data_type::u8 && types.x != memory::data_type::s8;
  if (shape.kind != ConvolutionKind::kForward || (floats && shape.groups > 1 && !depthwise)) return nullptr;
  // Sums of integers are exact however they are cut.
  for (const bool equal : {false, true}) {
    if (equal && floats) break;
    try {
      auto made = std::make_unique<BandedConvolution>(shape, types, equal);
      if (made->fast()) return made;
    } catch (const dnnl::error&) {  // what it does not take in this layout
    }
  }
  return nullptr;
}

}  // namespace transom::cpu
