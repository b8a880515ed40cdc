// SPDX-License-Identifier: Apache-2.0
// Attention in tiles against plain loops: lengths that the tiles do not divide, heads that share keys, masks, and a
// query alone.
#include "attention_in_loops.h"
#include "gpu_device.h"

namespace transom::backend_test {
namespace {

using Case = AttentionCase;

class GpuAttention : public OnGpu {};

TEST_F(GpuAttention, OfAnyLengthsAndMasks) {
  for (const Case& c : {Case{1, 1, 1, 1, 1, 1, false, 0, 0, false}, Case{17, 65, 2, 1, 8, 40, false, 0, 0, true},
                        Case{70, 70, 4, 2, 8, 8, true, 0, 0, false}, Case{5, 130, 2, 2, 8, 3, true, 20, 0, false},
                        Case{33, 33, 1, 1, 8, 8, true, 0, 2, false}}) {
    const Tensor q = numbers(TRANSOM_FLOAT32, {1, c.T, c.H, c.d}),
                 k = numbers(TRANSOM_FLOAT32, {1, c.S, c.G, c.d}, -2, 2, 2),
                 v = numbers(TRANSOM_FLOAT32, {1, c.S, c.G, c.e}, -2, 2, 3),
                 bias = numbers(TRANSOM_FLOAT32, {1, 1, 1, c.S}, -2, 2, 4);
    std::vector<Tensor> inputs = {q, k, v};
    if (c.biased) inputs.push_back(bias);
    const Tensor found = run("attention", inputs, {{TRANSOM_FLOAT32, {1, c.T, c.H, c.e}}}, c.attributes())[0];
    EXPECT_LT(difference(found, attention_in_loops(c, q, k, v, bias)), 2e-5) << c.T << " queries, " << c.S << " keys";
  }
}

TEST_F(GpuAttention, AQueryHasTheBitsThatItHasAlone) {
  const Case c{40, 70, 1, 1, 8, 8, false, 0, 0, false};
  const Tensor q = numbers(TRANSOM_FLOAT32, {1, 40, 1, 8}), k = numbers(TRANSOM_FLOAT32, {1, 70, 1, 8}, -2, 2, 2),
               v = numbers(TRANSOM_FLOAT32, {1, 70, 1, 8}, -2, 2, 3);
  const Tensor all = run("attention", {q, k, v}, {{TRANSOM_FLOAT32, {1, 40, 1, 8}}}, c.attributes())[0];
  const Tensor last{TRANSOM_FLOAT32, {1, 1, 1, 8}, {q.values.end() - 8, q.values.end()}};
  const Tensor alone = run("attention", {last, k, v}, {{TRANSOM_FLOAT32, {1, 1, 1, 8}}}, c.attributes())[0];
  EXPECT_EQ(std::vector<double>(all.values.end() - 8, all.values.end()), alone.values);
}

}  // namespace
}  // namespace transom::backend_test
