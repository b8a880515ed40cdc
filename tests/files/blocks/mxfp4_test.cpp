// SPDX-License-Identifier: Apache-2.0
// Experts as gpt-oss stores them: codes of 4 bits with a power of two for each 32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "base/json/json.h"
#include "files/blocks/quantization_config.h"
#include "support/message.h"

namespace transom {
namespace {

constexpr float kTable[] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};

TensorView bytes_of(std::vector<int64_t> shape, size_t factor, size_t offset, size_t below) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  const auto held = std::make_shared<std::vector<std::byte>>(count);
  for (size_t i = 0; i < count; ++i) (*held)[i] = static_cast<std::byte>(offset + i * factor % below);
  return {DType::kUInt8, std::move(shape), *held, held};
}

Config mxfp4() { return make_config(Json{{"quant_method", "mxfp4"}}, "config.json: quantization_config"); }

// Two experts, four rows of two groups.
Checkpoint stored(int64_t group_bytes = 16) {
  Checkpoint checkpoint("model.safetensors");
  checkpoint.add("l.mlp.experts.gate_up_proj_blocks", bytes_of({2, 4, 2, group_bytes}, 37, 0, 256));
  checkpoint.add("l.mlp.experts.gate_up_proj_scales", bytes_of({2, 4, 2}, 5, 120, 12));
  return checkpoint;
}

TEST(Mxfp4, GateAndUpTakeTurns) {
  Checkpoint checkpoint = stored();
  const TensorView blocks = *checkpoint.find("l.mlp.experts.gate_up_proj_blocks"),
                   scales = *checkpoint.find("l.mlp.experts.gate_up_proj_scales");
  read_quantized_weights(mxfp4(), checkpoint);
  EXPECT_TRUE(checkpoint.tensors().empty());
  ASSERT_EQ(checkpoint.compressed().size(), 4);
  for (size_t expert = 0; expert < 2; ++expert)
    for (size_t part = 0; part < 2; ++part) {
      const CompressedWeight* weight = checkpoint.find_compressed("l.mlp.experts." + std::to_string(expert) +
                                                                  (part == 0 ? ".gate_proj" : ".up_proj") + ".weight");
      ASSERT_NE(weight, nullptr);
      const TensorView view = dequantised_view(*weight->matrix);
      ASSERT_EQ(view.shape, (std::vector<int64_t>{2, 64}));
      for (size_t row = 0; row < 2; ++row)
        for (size_t k = 0; k < 64; ++k) {
          const size_t from = expert * 4 + row * 2 + part;
          const auto both = static_cast<unsigned>(blocks.bytes[from * 32 + k / 2]);
          const int power = static_cast<int>(scales.bytes[from * 2 + k / 32]) - 127;
          float found;
          std::memcpy(&found, view.bytes.data() + (row * 64 + k) * 4, 4);
          EXPECT_EQ(found, std::ldexp(kTable[k % 2 == 0 ? both & 15 : both >> 4], power)) << row << " " << k;
        }
    }
}

TEST(Mxfp4, OtherShapesAreRefused) {
  Checkpoint wrong = stored(8);
  EXPECT_NE(test::message_of([&] { read_quantized_weights(mxfp4(), wrong); }).find("gate_up_proj_blocks"),
            std::string::npos);
  Checkpoint alone = stored();
  alone.take("l.mlp.experts.gate_up_proj_scales");
  EXPECT_NE(test::message_of([&] { read_quantized_weights(mxfp4(), alone); }).find("gate_up_proj_scales"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
