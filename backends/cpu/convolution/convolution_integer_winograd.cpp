// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes by windows of 3x3 as Winograd's F(2x2, 3x3) in integers, for processors without VNNI: products
// of 16 bits take as long there as those of bytes, and 16 of them do for 36. All is exact. The transformed x has 11
// bits and a sign. The transformed weights are multiplied by 4, which makes them whole, of 11 bits and a sign too; so
// the sums are four times the results. They are taken modulo 2^32, which what comes out of the transform fits again.
#include <algorithm>
#include <vector>

#include "cpu/convolution/convolution_shape.h"
#include "cpu/convolution/winograd_tiles.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/packed_weight.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/kernels.h"
#include "cpu/vector/products/byte_products.h"

namespace transom::cpu {
namespace {

constexpr int64_t kPlaces = WinogradTiles::kPlaces;
constexpr int64_t kLeastChannels = 32, kMostChannels = 1024;  // four times a result of more leaves 32 bits
constexpr int64_t kLeastTiles = 32;
constexpr int64_t kInputBytes = 448 << 10, kSumBytes = 256 << 10;  // of a task: they stay in the second cache

struct TileWeights : PackedWeight {
  PackedMemory panels;  // [16, panels, padded depth, width]
};

class IntegerWinograd {
 public:
  IntegerWinograd(const ConvolutionShape& s, int64_t zero_point)
      : g_(s),
        channels_(g_.x[1]),
        results_(g_.y[1]),
        depth_(static_cast<int64_t>(byte_products().padded_depth(static_cast<size_t>(channels_)))),
        width_(static_cast<int64_t>(byte_products().width)),
        panels_((results_ + width_ - 1) / width_),
        flip_(s.dtype == TRANSOM_INT8 ? 0x80 : 0),
        zero_(static_cast<int16_t>(zero_point + flip_)) {
    cut();
  }

  std::vector<int64_t> key() const { return {-12, results_, channels_}; }

  // 4 G g G^T of every pair of channels.
  std::shared_ptr<TileWeights> pack(const std::byte* weights) const {
    const auto* from = reinterpret_cast<const int8_t*>(weights);  // [results, channels, 3, 3]
    auto made = std::make_shared<TileWeights>();
    made->panels = allocate_packed(static_cast<size_t>(kPlaces * place_step()) * sizeof(int16_t));
    std::vector<int16_t> transformed(static_cast<size_t>(results_ * channels_ * kPlaces));
    parallel_for(static_cast<size_t>(results_), [&](size_t result) {
      for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
        const size_t pair = result * static_cast<size_t>(channels_) + c;
        const int8_t* g = from + pair * 9;
        int half[4][3];  // 2 G g
        for (int j = 0; j < 3; ++j) {
          half[0][j] = 2 * g[j], half[3][j] = 2 * g[6 + j];
          half[1][j] = g[j] + g[3 + j] + g[6 + j], half[2][j] = g[j] - g[3 + j] + g[6 + j];
        }
        int16_t* to = transformed.data() + pair * static_cast<size_t>(kPlaces);
        for (const auto& h : half)
          for (const int value : {2 * h[0], h[0] + h[1] + h[2], h[0] - h[1] + h[2], 2 * h[2]})
            *to++ = static_cast<int16_t>(value);
      }
    });
    parallel_for(static_cast<size_t>(kPlaces), [&](size_t place) {
      byte_products().pack(
          reinterpret_cast<int16_t*>(made->panels.get()) + static_cast<int64_t>(place) * place_step(),
          static_cast<size_t>(channels_), static_cast<size_t>(depth_), static_cast<size_t>(results_),
          [&](size_t k, size_t column) {
            return transformed[(column * static_cast<size_t>(channels_) + k) * static_cast<size_t>(kPlaces) + place];
          });
    });
    return made;
  }

  void run(const Arguments& arguments, const TileWeights& weights) const {
    const int64_t bands = (g_.tile_rows() + rows_ - 1) / rows_;
    parallel_for(static_cast<size_t>(bands * parts_), [&](size_t task) {
      const int64_t first = static_cast<int64_t>(task) / parts_ * rows_;
      run_band(arguments, weights, static_cast<int64_t>(task) % parts_, first, std::min(first + rows_, g_.tile_rows()));
    });
  }

 private:
  int64_t place_step() const { return panels_ * width_ * depth_; }

  // How many rows of tiles a band has, and into how many parts the results' panels are cut: what keeps the busiest
  // thread the shortest. Costs are counted in multiplications of a tile.
  void cut() {
    const auto threads = static_cast<int64_t>(thread_count());
    double best = 0;
    for (const int64_t parts : {int64_t{1}, threads}) {
      if (panels_ % parts != 0) continue;
      const int64_t columns = panels_ / parts * width_;
      for (int64_t rows = 1; rows <= g_.tile_rows(); ++rows) {
        const int64_t tiles = rows * g_.tile_columns(), bands = (g_.tile_rows() + rows - 1) / rows;
        if (rows > 1 && kPlaces * tiles * depth_ * static_cast<int64_t>(sizeof(int16_t)) > kInputBytes) break;
        const double products = static_cast<double>((tiles + 4) * channels_ * columns);
        const double transforms = 12.0 * static_cast<double>(tiles * (channels_ + columns));
        const double cost = static_cast<double>((bands * parts + threads - 1) / threads) * (products + transforms);
        if (best == 0 || cost < best * 0.98) best = cost, parts_ = parts, rows_ = rows;
      }
    }
  }

  // Tiles of the rows [first, end), and one part of the panels.
  void run_band(const Arguments& arguments, const TileWeights& weights, int64_t part, int64_t first,
                int64_t end) const {
    const int64_t tiles = (end - first) * g_.tile_columns(), panels = panels_ / parts_;
    const int64_t together = std::clamp<int64_t>(kSumBytes / (kPlaces * tiles * width_ * 4), 1, panels);
    const int64_t places = (g_.end_row(end - 1) - g_.first_row(first)) * g_.y[3];
    Scratch scratch(Scratch::bytes_of<int16_t>(kPlaces * tiles * depth_) +
                    Scratch::bytes_of<int32_t>(kPlaces * tiles * together * width_) +
                    Scratch::bytes_of<uint8_t>(channels_) + Scratch::bytes_of<float>(together * width_));
    auto* v = scratch.take<int16_t>(kPlaces * tiles * depth_);
    auto* m = scratch.take<int32_t>(kPlaces * tiles * together * width_);
    auto* zeros = scratch.take<uint8_t>(channels_);
    auto* beyond = scratch.take<float>(together * width_);
    std::fill_n(zeros, channels_, static_cast<uint8_t>(zero_ ^ flip_));
    read_tiles(arguments.input<uint8_t>(0), first, end, zeros, v, tiles * depth_);
    const auto* words = reinterpret_cast<const int16_t*>(weights.panels.get());
    // What the reader sees alone stays with the thread. The reader uses scratch memory, so that it comes last.
    const int64_t column = part * panels * width_, columns = std::min(panels * width_, results_ - column);
    const int64_t begin = g_.first_row(first) * g_.y[3], y_row = arguments.reader ? columns : results_;
    auto* y = arguments.reader ? reinterpret_cast<float*>(thread_scratch(
                                     static_cast<size_t>(places * columns) * sizeof(float), ScratchUse::kChunk))
                               : arguments.output<float>() + begin * results_ + column;
    for (int64_t done = 0; done < panels; done += together) {
      const int64_t count = std::min(together, panels - done), row = count * width_;
      for (int64_t place = 0; place < kPlaces; ++place)
        byte_products().multiply_words(
            m + place * tiles * row, static_cast<size_t>(row), v + place * tiles * depth_, static_cast<size_t>(depth_),
            words + place * place_step() + (column + done * width_) * depth_, static_cast<size_t>(width_ * depth_),
            static_cast<size_t>(tiles), static_cast<size_t>(depth_), static_cast<size_t>(count));
      write_tiles(m, tiles * row, row, first, end, beyond, y + done * width_, y_row,
                  std::min(row, columns - done * width_));
    }
    if (arguments.reader)
      arguments.reader->read(
          {begin * results_ + column, columns, results_, places, reinterpret_cast<const std::byte*>(y), sizeof(float)});
  }

  void read_tiles(const uint8_t* x, int64_t first, int64_t end, const uint8_t* zeros, int16_t* v, int64_t step) const {
    const uint8_t* places[kPlaces];
    for (int64_t row = first; row < end; ++row) {
      const uint8_t* image = x + row / g_.rows_of_image() * g_.x[2] * g_.x[3] * channels_;
      const int64_t top = 2 * (row % g_.rows_of_image()) - g_.low[0];
      for (int64_t left = -g_.low[1]; left < g_.y[3] - g_.low[1]; left += 2, v += depth_) {
        for (int64_t i = 0; i < kPlaces; ++i) {
          const int64_t h = top + i / 4, w = left + i % 4;
          const bool inside = h >= 0 && h < g_.x[2] && w >= 0 && w < g_.x[3];
          places[i] = inside ? image + (h * g_.x[3] + w) * channels_ : zeros;
        }
        vector_kernels().winograd_input_bytes(v, static_cast<size_t>(step), places, flip_, zero_,
                                              static_cast<size_t>(channels_));
        for (int64_t i = 0; i < kPlaces; ++i) std::fill(v + i * step + channels_, v + i * step + depth_, int16_t{0});
      }
    }
  }

  // y: the first place of these rows of tiles, with y_row numbers from place to place.
  void write_tiles(const int32_t* m, int64_t step, int64_t m_row, int64_t first, int64_t end, float* beyond, float* y,
                   int64_t y_row, int64_t columns) const {
    float* places[4];
    for (int64_t row = first; row < end; ++row)
      for (int64_t left = 0; left < g_.y[3]; left += 2, m += m_row) {
        for (int64_t i = 0; i < 4; ++i) {
          const int64_t h = g_.first_row(row) + i / 2, w = left + i % 2;
          const bool inside = h < g_.end_row(row) && w < g_.y[3];
          places[i] = inside ? y + ((h - g_.first_row(first)) * g_.y[3] + w) * y_row : beyond;
        }
        vector_kernels().winograd_output_integers(places, m, static_cast<size_t>(step), static_cast<size_t>(columns));
      }
  }

  WinogradTiles g_;
  int64_t channels_, results_, depth_, width_, panels_;  // depth_: channels in whole groups of byte_products
  uint8_t flip_;                                         // from i8 to u8
  int16_t zero_;                                         // as u8
  int64_t parts_ = 1, rows_ = 1;
};

bool pays(const ConvolutionShape& s) {
  if (!byte_products().multiply_words || !s.channels_last || !WinogradTiles::has_tiles(s)) return false;
  const WinogradTiles g(s);
  return std::min(g.x[1], g.y[1]) >= kLeastChannels && g.x[1] <= kMostChannels && g.tiles() >= kLeastTiles;
}

}  // namespace

std::optional<Kernel> integer_convolution_of_tiles(const ConvolutionShape& shape, int64_t zero_point, bool frozen) {
  if (!pays(shape)) return std::nullopt;
  Kernel kernel = packed_kernel(fmt::format("winograd {} i8, {}", dtype_name(shape.dtype), byte_products().name),
                                std::make_shared<const IntegerWinograd>(shape, zero_point), frozen);
  kernel.has_epilogue = true;
  return kernel;
}

}  // namespace transom::cpu
