// SPDX-License-Identifier: Apache-2.0
// The type in which the engine keeps keys and values where nothing is asked for.
#include <gtest/gtest.h>

#include "transom/engine.h"
#include "transom/model.h"

namespace transom {
namespace {

// Rounding inputs to 8 bits loses more than 16 bits of a key or a value do.
TEST(CacheTypes, Of16BitsBesideInputsOf8Bits) {
  const char* decoder = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 30,
    "n_positions": 100, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})";
  const int64_t bytes = int64_t{1} << 20;
  const auto blocks = [&](const std::string& quantization, const std::string& cache_dtype) {
    const auto model = Model::from_config(decoder, {.quantization = quantization});
    Engine engine(*model, {.cache_bytes = bytes, .cache_dtype = cache_dtype});
    EngineRequest request{.prompt = {3, 1, 4}};
    request.config.max_new_tokens = 2;
    engine.add(request);
    while (engine.step())
      ;
    return engine.statistics().blocks;
  };
  EXPECT_EQ(blocks("none", "auto"), blocks("none", "float32"));
  EXPECT_EQ(blocks("int8", "auto"), blocks("int8", "float16"));
  EXPECT_EQ(blocks("int8", "auto"), 2 * blocks("int8", "float32"));
  EXPECT_EQ(blocks("int8_channel", "auto"), blocks("int8_channel", "float32")) << "inputs are not rounded";
}

}  // namespace
}  // namespace transom
