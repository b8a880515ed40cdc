// SPDX-License-Identifier: Apache-2.0
// Windows of 3x3 that move place by place, as Winograd's F(2x2, 3x3): the results are made in tiles of 2x2, each with
// 16 multiplications for a pair of channels where the sum over the window needs 36. The tiles of a band of rows are
// transformed, multiplied with the transformed weights by the library, and transformed back while they are in the
// second cache. Larger tiles would multiply less, and round more. An infinity makes NaN of all results of the tiles
// that see it.
//
// The gradient of the input is the same convolution of the other gradient, with the window turned round.
#include <algorithm>

#include "cpu/convolution/convolution_library.h"
#include "cpu/convolution/winograd_tiles.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kLeastChannels = 32;
constexpr int64_t kLeastTiles = 32;
constexpr int64_t kBandBytes = 640 << 10;  // of a band's transformed tiles and products, but
constexpr int64_t kMostTiles = 64;         // are taken even where they are more: all share one pass over the weights

// G g G^T of every pair of channels: from w [O, C, 3, 3] to u [parts, 16, C, K / parts].
void transform_weights(const float* w, float* u, int64_t channels, int64_t results, int64_t parts, bool turned) {
  const int64_t each = results / parts;
  parallel_for(static_cast<size_t>(channels), [&](size_t index) {
    const auto c = static_cast<int64_t>(index);
    for (int64_t k = 0; k < results; ++k) {
      const float* g = w + (turned ? c * results + k : k * channels + c) * 9;
      double half[4][3];  // G g
      for (int64_t j = 0; j < 3; ++j) {
        const auto at = [&](int64_t i) { return static_cast<double>(g[turned ? 8 - (i * 3 + j) : i * 3 + j]); };
        half[0][j] = at(0);
        half[1][j] = (at(0) + at(1) + at(2)) / 2;
        half[2][j] = (at(0) - at(1) + at(2)) / 2;
        half[3][j] = at(2);
      }
      float* to = u + (k / each * WinogradTiles::kPlaces * channels + c) * each + k % each;
      const int64_t step = channels * each;
      for (int64_t i = 0; i < 4; ++i) {
        const double* h = half[i];
        const double made[4] = {h[0], (h[0] + h[1] + h[2]) / 2, (h[0] - h[1] + h[2]) / 2, h[2]};
        for (int64_t j = 0; j < 4; ++j) to[(i * 4 + j) * step] = static_cast<float>(made[j]);
      }
    }
  });
}

class WinogradConvolution final : public LibraryConvolution {
 public:
  explicit WinogradConvolution(const ConvolutionShape& s)
      : g_(s), channels_last_(s.channels_last), channels_(g_.x[1]), results_(g_.y[1]) {
    const OneThread one_thread;
    cut();
    whole_ = Product(rows_ * g_.tile_columns(), channels_, results_ / parts_, nullptr);
    const int64_t rest = g_.tile_rows() % rows_;
    if (rest) rest_ = Product(rest * g_.tile_columns(), channels_, results_ / parts_, &whole_.w);
    const memory::desc host({WinogradTiles::kPlaces, channels_, results_ / parts_}, memory::data_type::f32,
                            memory::format_tag::abc);
    filters_ = PackedFilters(host, whole_.w, parts_, WinogradTiles::kPlaces * channels_ * (results_ / parts_),
                             [channels = channels_, results = results_, parts = parts_, turned = g_.turned](
                                 const std::byte* weights, std::byte* made) {
                               transform_weights(reinterpret_cast<const float*>(weights),
                                                 reinterpret_cast<float*>(made), channels, results, parts, turned);
                             });
    copies_ = ChannelsLastCopies(g_.x, g_.y, channels_last_);
  }

  size_t scratch_bytes() const override {
    return aligned(filters_.bytes()) + filters_.temporary_bytes() + copies_.bytes();
  }
  const PackedFilters& filters() const override { return filters_; }
  bool has_epilogue() const override { return channels_last_; }
  const char* way() const override { return "winograd"; }

  void run(const std::byte* first, const std::byte* second, std::byte* result, std::byte* scratch,
           const std::byte* packed, const ChunkReader* reader) const override {
    if (!packed) {
      filters_.pack(second, scratch, scratch + aligned(filters_.bytes()));
      packed = scratch;
    }
    copies_.run(first, result, scratch + aligned(filters_.bytes()) + filters_.temporary_bytes(),
                [&](const float* x, float* y) { compute(x, packed, y, reader); });
  }

 private:
  // The products of all tiles of a band: [16, T, C] times [16, C, K].
  struct Product {
    int64_t v_step = 0, m_step = 0;
    dnnl::primitive primitive;
    memory::desc v, w, m, scratchpad;

    Product() = default;
    Product(int64_t tiles, int64_t channels, int64_t results, const memory::desc* weights)
        : v_step(tiles * channels), m_step(tiles * results) {
      const auto desc = [](int64_t rows, int64_t columns, memory::format_tag tag) {
        return memory::desc({WinogradTiles::kPlaces, rows, columns}, memory::data_type::f32, tag);
      };
      v = desc(tiles, channels, memory::format_tag::abc);
      m = desc(tiles, results, memory::format_tag::abc);
      const memory::desc any = desc(channels, results, memory::format_tag::any);
      const dnnl::matmul::primitive_desc made(library_engine(), v, weights ? *weights : any, m, library_attributes());
      primitive = dnnl::matmul(made);
      w = made.weights_desc();
      scratchpad = made.scratchpad_desc();
    }
  };

  // How many rows of tiles a band has, and into how many parts the results' channels are cut where the bands do not
  // share out evenly: what keeps the busiest thread the shortest. Costs are counted in multiplications of a tile.
  void cut() {
    const auto threads = static_cast<int64_t>(thread_count());
    double best = 0;
    for (const int64_t parts : {int64_t{1}, threads}) {
      if (results_ % (16 * parts) != 0) continue;
      const int64_t results = results_ / parts;
      for (int64_t rows = 1; rows <= g_.tile_rows(); ++rows) {
        const int64_t tiles = rows * g_.tile_columns(), bands = (g_.tile_rows() + rows - 1) / rows;
        const bool large =
            WinogradTiles::kPlaces * tiles * (channels_ + results) * static_cast<int64_t>(sizeof(float)) > kBandBytes;
        if (large && tiles > kMostTiles) break;
        const int64_t tasks = (bands * parts + threads - 1) / threads;
        const double transforms = 6.0 * static_cast<double>(tiles * (channels_ + results));
        const double products = static_cast<double>((tiles + 4) * channels_ * results);
        const double cost = static_cast<double>(tasks) * (products + transforms);
        if (best == 0 || cost < best * 0.98) best = cost, parts_ = parts, rows_ = rows;
      }
    }
  }

  void compute(const float* x, const std::byte* packed, float* y, const ChunkReader* reader) const {
    const int64_t bands = (g_.tile_rows() + rows_ - 1) / rows_;
    // Bands that follow each other share rows, which are still in the caches.
    parallel_for(static_cast<size_t>(bands * parts_), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      const int64_t part = i % parts_, first = i / parts_ * rows_, end = std::min(first + rows_, g_.tile_rows());
      const Product& product = end - first == rows_ ? whole_ : rest_;
      const int64_t results = results_ / parts_;
      auto* own = reinterpret_cast<float*>(thread_scratch(
          static_cast<size_t>(WinogradTiles::kPlaces * (product.v_step + product.m_step) + channels_ + results) *
          sizeof(float)));
      float* v = own;
      float* m = v + WinogradTiles::kPlaces * product.v_step;
      float* nothing =
          m + WinogradTiles::kPlaces * product.m_step;  // zeros of the padding, then room for results beyond the edge
      std::fill_n(nothing, channels_, 0.0f);
      read_tiles(x, first, end, nothing, v, product.v_step);
      execute(product.primitive,
              {{DNNL_ARG_SRC, product.v, v},
               {DNNL_ARG_WEIGHTS, product.w, filters_.part(part, nullptr, packed)},
               {DNNL_ARG_DST, product.m, m}},
              product.scratchpad);
      write_tiles(m, product.m_step, first, end, nothing + channels_, y + part * results);
      if (!reader) return;
      const int64_t places = (g_.end_row(end - 1) - g_.first_row(first)) * g_.y[3];
      const int64_t begin = g_.first_row(first) * g_.y[3] * results_ + part * results;
      reader->read(parts_ == 1 ? Chunk{begin, places * results_} : Chunk{begin, results, results_, places});
    });
  }

  void read_tiles(const float* x, int64_t first, int64_t end, const float* zeros, float* v, int64_t step) const {
    const float* places[WinogradTiles::kPlaces];
    for (int64_t row = first; row < end; ++row) {
      const float* image = x + row / g_.rows_of_image() * g_.x[2] * g_.x[3] * channels_;
      const int64_t top = 2 * (row % g_.rows_of_image()) - g_.low[0];
      for (int64_t left = -g_.low[1]; left < g_.y[3] - g_.low[1]; left += 2, v += channels_) {
        for (int64_t i = 0; i < WinogradTiles::kPlaces; ++i) {
          const int64_t h = top + i / 4, w = left + i % 4;
          const bool inside = h >= 0 && h < g_.x[2] && w >= 0 && w < g_.x[3];
          places[i] = inside ? image + (h * g_.x[3] + w) * channels_ : zeros;
        }
        vector_kernels().winograd_input(v, static_cast<size_t>(step), places, static_cast<size_t>(channels_));
      }
    }
  }

  void write_tiles(const float* m, int64_t step, int64_t first, int64_t end, float* beyond, float* y) const {
    const int64_t results = results_ / parts_;
    float* places[4];
    for (int64_t row = first; row < end; ++row)
      for (int64_t left = 0; left < g_.y[3]; left += 2, m += results) {
        for (int64_t i = 0; i < 4; ++i) {
          const int64_t h = g_.first_row(row) + i / 2, w = left + i % 2;
          places[i] = h < g_.end_row(row) && w < g_.y[3] ? y + (h * g_.y[3] + w) * results_ : beyond;
        }
        vector_kernels().winograd_output(places, m, static_cast<size_t>(step), static_cast<size_t>(results));
      }
  }

  WinogradTiles g_;
  bool channels_last_;
  int64_t channels_, results_, parts_ = 1, rows_ = 1;
  Product whole_, rest_;  // of a band, and of the last one if it is lower
  PackedFilters filters_;
  ChannelsLastCopies copies_;
};

// By the shape alone, so that the bits are those of frozen and of changing weights.
bool pays(const ConvolutionShape& s) {
  if (s.kind == ConvolutionKind::kWeightGradient || !WinogradTiles::has_tiles(s)) return false;
  const WinogradTiles g(s);
  return std::min(g.x[1], g.y[1]) >= kLeastChannels && g.y[1] % 16 == 0 && g.tiles() >= kLeastTiles;
}

}  // namespace

std::unique_ptr<LibraryConvolution> make_winograd_convolution(const ConvolutionShape& shape, transom_dtype dtype) {
  if (dtype != TRANSOM_FLOAT32 || !pays(shape)) return nullptr;
  try {
    return std::make_unique<WinogradConvolution>(shape);
  } catch (const dnnl::error&) {  // a product that the library does not take
    return nullptr;
  }
}

}  // namespace transom::cpu
