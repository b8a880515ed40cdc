// SPDX-License-Identifier: Apache-2.0
// Models that keep a state beside keys and values: what is written goes on from it as it goes on from the text.
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "transom/device.h"
#include "transom/ops.h"
#include "work/generation/engine/paged/paged_program.h"
#include "work/generation/search/decoding.h"

namespace transom {
namespace {

constexpr int64_t kWords = 5;

// The state is half of itself and the token that comes, [B, V]; what follows is scored by it, and, with attention, by
// the mean of all tokens besides.
class Recurrent : public GenerativeModel {
 public:
  explicit Recurrent(bool attends) : attends_(attends) {}

 protected:
  std::vector<std::string> input_names() const override { return {"input_ids"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor ids = inputs.at("input_ids");
    const int64_t B = ids.dim(0), T = ids.dim(1);
    const Shape shape{B, T, kWords};
    Tensor state = context.cache->state(0);
    const Tensor places = context.cache->places();
    Tensor x = cast(equal(broadcast_to(unsqueeze(ids, 2), shape), iota(shape, 2)), DType::kFloat32);
    if (context.cache->reads_prompt()) x = x * unsqueeze(cast(slice(places, 1, 0, T), DType::kFloat32), 2);
    if (!state.defined()) state = zeros({B, kWords});
    for (int64_t t = 0; t < T; ++t) state = state * 0.5 + squeeze(slice(x, 1, t, t + 1), 1);
    context.cache->set_state(0, state);
    Tensor logits = unsqueeze(state, 1);
    if (attends_) {
      const Tensor one = unsqueeze(x, 2);
      const Tensor seen = cached_attention(0, one, one, one, Tensor(), {.scale = 1}, Dropout(0), context);
      logits = logits + slice(seen, 1, T - 1, T);
    }
    return {{"logits", logits}};
  }

 private:
  bool attends_;
};

class RecurrentState : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { set_device("cpu"); }
  static std::vector<float> from_the_beginning(const Recurrent& model, const std::vector<TokenIds>& rows,
                                               const std::vector<TokenIds>& mask) {
    return Decoding(model, {.mask = mask}, 16, false, {}).next(rows);
  }
};

TEST_P(RecurrentState, GoesOnAsTheTextDoes) {
  const Recurrent model(GetParam());
  const std::vector<TokenIds> mask{{1, 1, 1}, {0, 1, 1}};
  Decoding decoding(model, {.mask = mask}, 16, true, {});
  std::vector<TokenIds> rows{{1, 2, 3}, {0, 4, 2}};
  EXPECT_EQ(decoding.next(rows), from_the_beginning(model, rows, mask));
  for (const int64_t token : {2, 4, 1, 3}) {
    for (size_t row = 0; row < 2; ++row) rows[row].push_back((token + static_cast<int64_t>(row)) % kWords);
    const std::vector<float> next = decoding.next(rows), expected = from_the_beginning(model, rows, mask);
    ASSERT_EQ(next.size(), expected.size());
    for (size_t i = 0; i < next.size(); ++i) EXPECT_NEAR(next[i], expected[i], 1e-6) << rows[0].size();
  }
}

TEST_P(RecurrentState, IsTheOneOfItsRow) {
  const Recurrent model(GetParam());
  Decoding decoding(model, {.mask = {{1, 1, 1}}}, 16, true, {});
  decoding.next({{1, 2, 3}});
  decoding.repeat(2);
  decoding.next({{1, 2, 3, 4}, {1, 2, 3, 0}});
  decoding.reorder({1, 1});
  const std::vector<TokenIds> rows{{1, 2, 3, 0, 1}, {1, 2, 3, 0, 2}};
  const std::vector<float> next = decoding.next(rows),
                           expected = from_the_beginning(model, rows, {{1, 1, 1}, {1, 1, 1}});
  for (size_t i = 0; i < next.size(); ++i) EXPECT_NEAR(next[i], expected[i], 1e-6);
}

// The engine then computes such texts row by row.
TEST_P(RecurrentState, CannotBePaged) {
  try {
    key_value_shapes(Recurrent(GetParam()));
    FAIL() << "it was";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("cannot be paged"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentState, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "WithAttention" : "Alone"); });

}  // namespace
}  // namespace transom
