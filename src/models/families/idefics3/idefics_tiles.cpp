// SPDX-License-Identifier: Apache-2.0
#include "models/families/idefics3/idefics_tiles.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "transom/ops.h"

namespace transom {
namespace {

int64_t idefics_side(const SiglipVisionConfig& c, const Config& config) {
  if (c.image_size[0] != c.image_size[1] || c.patch_size[0] != c.patch_size[1])
    fail("{}: image_size and patch_size: expected squares", config.where());
  return patch_grid(c.image_size, c.patch_size)[0];
}

std::vector<float> boundaries_of(int64_t side) {
  std::vector<float> boundaries;
  const double step = 1 / static_cast<double>(side);
  const auto count = static_cast<int64_t>(std::ceil((1 - step) / step));
  for (int64_t i = 0; i < count; ++i) boundaries.push_back(static_cast<float>(step + static_cast<double>(i) * step));
  return boundaries;
}

Tensor tiles_of(const NamedTensors& pictures) {
  const Tensor& pixels = pictures.at("pixel_values");
  if (pixels.rank() != 5 || pixels.dim(0) * pixels.dim(1) < 1)
    fail("pixel_values: expected [batch, tiles, channels, height, width], found {}", to_string(pixels.shape()));
  return flatten(pixels, 0, 1);
}

// i64 [N]: 0 where every number is 0.
Tensor seen_tiles(const Tensor& pixels) {
  const Tensor some = cast(not_equal(pixels, zeros(pixels.shape(), pixels.dtype())), DType::kInt64);
  return reduce_max(some, {1, 2, 3});
}

}  // namespace

IdeficsTower::IdeficsTower(const Scope& scope, const Config& config, Seen seen)
    : c_(config),
      which_(seen),
      side_(idefics_side(c_, config)),
      boundaries_(boundaries_of(side_)),
      patch_embedding_(scope / "embeddings" / "patch_embedding", c_.num_channels, c_.hidden_size, c_.patch_size,
                       c_.initializer_range),
      position_embedding_(scope / "embeddings" / "position_embedding", side_ * side_, c_.hidden_size,
                          c_.initializer_range),
      layers_(siglip_layers(scope, c_)),
      post_layernorm_(scope / "post_layernorm", c_.hidden_size, c_.layer_norm_eps) {}

SeenPatches IdeficsTower::operator()(const Tensor& pixels, const Tensor& mask, ForwardContext& context) const {
  const Tensor patches = patch_embedding_(pixels, context);
  const int64_t N = pixels.dim(0);
  const Extents grid = patch_grid(size_of(pixels), c_.patch_size);
  const Tensor seen = mask.defined() ? seen_patches(mask, grid) : full({N, grid[0], grid[1]}, 1, DType::kInt64);
  const Tensor rows = places(reduce_sum(slice(seen, 2, 0, 1), {1, 2}), grid[0]),
               columns = places(reduce_sum(slice(seen, 1, 0, 1), {1, 2}), grid[1]);
  const Tensor ids =
      (reshape(rows, {N, grid[0], 1}) * static_cast<double>(side_) + reshape(columns, {N, 1, grid[1]})) * seen;
  const Tensor x = patches + position_embedding_(reshape(ids, {N, grid[0] * grid[1]}), context);
  const Tensor all = reshape(seen, {N, grid[0] * grid[1]});
  const Tensor hidden_patches = mask.defined() ? additive_mask(all) : Tensor();
  return {post_layernorm_(through_layers(layers_, x, hidden_patches, context).last_hidden_state, context), all};
}

// i64 [N, h, w]
Tensor IdeficsTower::seen_patches(const Tensor& mask, Extents grid) const {
  const Extents patch = c_.patch_size;
  if (mask.rank() != 3 || mask.dim(1) < grid[0] * patch[0] || mask.dim(2) < grid[1] * patch[1])
    fail("pixel_attention_mask: expected the rows and columns of pixel_values, found {}", to_string(mask.shape()));
  const Tensor whole = slice(slice(cast(mask, DType::kInt64), 1, 0, grid[0] * patch[0]), 2, 0, grid[1] * patch[1]);
  const Tensor sums = reduce_sum(reshape(whole, {mask.dim(0), grid[0], patch[0], grid[1], patch[1]}), {2, 4});
  const double least = which_ == Seen::kAllPixels ? static_cast<double>(patch[0] * patch[1]) : 1;
  return cast(greater_equal(sums, full(sums.shape(), least, DType::kInt64)), DType::kInt64);
}

// Of `extent` patches in a line, of which `seen` [N] count, the places among those of the square grid: [N, extent].
// With the roundings of float32 that Transformers' bucketize() sees.
Tensor IdeficsTower::places(const Tensor& seen, int64_t extent) const {
  const int64_t N = seen.dim(0);
  const Tensor one = full({N, 1}, 1, DType::kFloat32);
  const Tensor fractions =
      minimum(iota({1, extent}, 1, DType::kFloat32) * (one / reshape(cast(seen, DType::kFloat32), {N, 1})),
              full({N, extent}, 1 - 1e-6, DType::kFloat32));
  if (boundaries_.empty()) return zeros({N, extent}, DType::kInt64);
  const auto count = static_cast<int64_t>(boundaries_.size());
  const Shape all{N, extent, count};
  const Tensor passed = greater_equal(broadcast_to(reshape(fractions, {N, extent, 1}), all),
                                      broadcast_to(Tensor::from(boundaries_, {1, 1, count}), all));
  return reduce_sum(cast(passed, DType::kInt64), {2});
}

PictureRows TileReader::operator()(const NamedTensors& pictures, ForwardContext& context) const {
  const Tensor pixels = tiles_of(pictures);
  const int64_t N = pixels.dim(0);
  Tensor mask = pictures.find("pixel_attention_mask");
  if (mask.defined()) {
    if (mask.rank() != 4 || mask.dim(0) * mask.dim(1) != N)
      fail("pixel_attention_mask: expected [batch, tiles, height, width] as pixel_values, found {}",
           to_string(mask.shape()));
    mask = flatten(mask, 0, 1);
  }
  const Tensor rows = rows_of(pixels, mask, context);
  const int64_t each = rows.dim(1);
  if (N == 1) return {flatten(rows, 0, 1)};
  // Those that are seen first, in their order.
  const Tensor seen = seen_tiles(pixels), number = cumulative_sum(seen, 0);
  const Tensor order =
      reduce_sum(cast(less_equal(broadcast_to(reshape(number, {1, N}), {N, N}), iota({N, N}, 0)), DType::kInt64), {1});
  const Tensor last = full({N}, static_cast<double>(N - 1), DType::kInt64);
  return {flatten(gather(rows, minimum(order, last), 0), 0, 1), reduce_sum(seen, {0}) * static_cast<double>(each)};
}

std::vector<PictureApart> TileReader::apart(const NamedTensors& pictures, ForwardContext& context) const {
  const Tensor pixels = tiles_of(pictures), given = pictures.find("pixel_attention_mask");
  const std::vector<int64_t> seen = seen_tiles(pixels).to_vector<int64_t>();
  const Tensor mask = given.defined() && given.rank() == 4 ? flatten(given, 0, 1) : Tensor();
  std::vector<PictureApart> tiles;
  for (int64_t i = 0; i < pixels.dim(0); ++i) {
    if (seen[static_cast<size_t>(i)] == 0) continue;
    NamedTensors tile{{"pixel_values", unsqueeze(slice(pixels, 0, i, i + 1), 0)}};
    if (mask.defined()) tile.set("pixel_attention_mask", unsqueeze(slice(mask, 0, i, i + 1), 0));
    const int64_t places = tiles.empty() ? (*this)(tile, context).rows.dim(0) : tiles[0].places;
    tiles.push_back({std::move(tile), places});
  }
  return tiles;
}

}  // namespace transom
