// SPDX-License-Identifier: Apache-2.0
// A family whose tokens stand at three numbers each and that makes rows of pictures: what generation asks of it.
#include <gtest/gtest.h>

#include "models/generative.h"
#include "models/nn/attention/attention.h"
#include "transom/device.h"
#include "transom/ops.h"
#include "work/generation/engine/paged/paged_pass.h"
#include "work/generation/search/decoding.h"

namespace transom {
namespace {

constexpr int64_t kWidthOfSeer = 4;

// Its logits [B, 1, 3 + D] are the numbers of the last token's place, then its embedding: 1 for the token, or what a
// picture is made of. All tokens are read on the way, so that there are keys to keep.
class Seer : public GenerativeModel {
 public:
  int64_t embedding_width() const override { return kWidthOfSeer; }
  int64_t position_axes() const override { return 3; }
  // A picture stands at one time, its rows in a column, and counts as one place.
  TextPositions positions_of(const ModelInputs& inputs) const override {
    TextPositions positions{.prompt = {{}, {}, {}}};
    int64_t next = 0;
    const auto length = static_cast<int64_t>(inputs.tokens.size());
    const FilledPlaces picture = inputs.attached.empty() ? FilledPlaces{length, 0} : inputs.attached[0].places[0];
    for (int64_t place = 0; place < length; ++place) {
      const bool inside = place >= picture.begin && place < picture.end();
      if (place > 0 && !(inside && place > picture.begin)) ++next;
      positions.prompt[0].push_back(next);
      positions.prompt[1].push_back(next + (inside ? place - picture.begin : 0));
      positions.prompt[2].push_back(next);
    }
    positions.delta = next + 1 - length;
    return positions;
  }

 protected:
  std::vector<std::string> input_names() const override { return {"input_ids", "inputs_embeds", "position_ids"}; }
  Tensor embeddings_of(const Tensor& ids, ForwardContext&) const override {
    return full({ids.dim(0), ids.dim(1), kWidthOfSeer}, 1, DType::kFloat32);
  }
  Tensor run_embedding(const NamedTensors& tensors, ForwardContext&) const override {
    return reshape(tensors.at("pixel_values"), {-1, kWidthOfSeer});
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor given = inputs.find("inputs_embeds");
    const Tensor x = given.defined() ? given : embeddings_of(inputs.at("input_ids"), context);
    const Tensor states = unsqueeze(x, 2);
    const Tensor seen = cached_attention(0, states, states, states, Tensor(), {.scale = 1}, Dropout(0), context);
    const Tensor places = cast(transpose(transpose(inputs.at("position_ids"), 0, 1), 1, 2), DType::kFloat32);
    const Tensor logits = concatenate({places, x}, 2) + reduce_sum(seen, {2}, true) * 0.0;
    return {{"logits", slice(logits, 1, logits.dim(1) - context.logits_to_keep, logits.dim(1))}};
  }
};

AttachedInput picture_at(FilledPlaces places) {
  std::vector<float> pixels;
  for (int64_t i = 0; i < places.count * kWidthOfSeer; ++i) pixels.push_back(10 + static_cast<float>(i));
  return {.tensors = {{"pixel_values", Tensor::from(pixels, {places.count, 2, 2})}}, .places = {places}};
}

TEST(FamilyPositions, AreThoseOfTheTextWithoutItsPadding) {
  set_device("cpu");
  const Seer model;
  // Two rows of six: the second begins with two of padding, which its picture stands behind.
  Decoding decoding(
      model,
      {.mask = {{1, 1, 1, 1, 1, 1}, {0, 0, 1, 1, 1, 1}}, .attached = {{picture_at({1, 3})}, {picture_at({3, 3})}}}, 12,
      true, {});
  // One, the picture at 1 to 3 of the second axis, two more; one, the picture up to the end.
  EXPECT_EQ(decoding.next({{5, 7, 7, 7, 5, 5}, {0, 0, 5, 7, 7, 7}}),
            (std::vector<float>{3, 3, 3, 1, 1, 1, 1, 1, 3, 1, 18, 19, 20, 21}));
  EXPECT_EQ(decoding.next({{5, 7, 7, 7, 5, 5, 5}, {0, 0, 5, 7, 7, 7, 5}}),
            (std::vector<float>{4, 4, 4, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1}));
  decoding.repeat(2);
  const std::vector<TokenIds> rows{
      {5, 7, 7, 7, 5, 5, 5, 5}, {5, 7, 7, 7, 5, 5, 5, 5}, {0, 0, 5, 7, 7, 7, 5, 5}, {0, 0, 5, 7, 7, 7, 5, 5}};
  EXPECT_EQ(decoding.next(rows), (std::vector<float>{5, 5, 5, 1, 1, 1, 1, 5, 5, 5, 1, 1, 1, 1,  //
                                                     3, 3, 3, 1, 1, 1, 1, 3, 3, 3, 1, 1, 1, 1}));
}

TEST(FamilyPositions, ReachThePagedPass) {
  set_device("cpu");
  const Seer model;
  PagedProgram program(model, key_value_shapes(model), 4, 4, 4);
  const ModelInputs text({5, 7, 7, 7, 5, 5}, {picture_at({1, 3})});
  const TextPositions positions = model.positions_of(text);
  const std::vector<float> rows = program.embed(text.attached[0], {});
  ASSERT_EQ(rows.size(), 12u);
  const std::vector<int32_t> blocks{2, 0};
  std::vector<PassToken> tokens;
  for (int64_t place = 0; place < 7; ++place)
    tokens.push_back({.id = 5, .place = place, .blocks = &blocks, .positions = &positions});
  for (int64_t place = 1; place < 4; ++place) tokens[static_cast<size_t>(place)].row = &rows[4 * (place - 1)];
  const TokenWidths widths{.position_axes = 3, .embedding = kWidthOfSeer};
  // The scores of the last token of the picture, of one behind it, and of one that was written.
  const auto scores = [&](size_t first, size_t count) {
    const std::span<float> all = program.run(
        pass_of(std::span(tokens).subspan(0, first), std::span(tokens).subspan(first, count), 4, 16, widths), {});
    return std::vector<float>(all.end() - static_cast<ptrdiff_t>(count * 7), all.end());
  };
  EXPECT_EQ(scores(3, 1), (std::vector<float>{1, 3, 1, 18, 19, 20, 21}));
  EXPECT_EQ(scores(5, 2), (std::vector<float>{3, 3, 3, 1, 1, 1, 1, 4, 4, 4, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace transom
