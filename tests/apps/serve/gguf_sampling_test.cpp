// SPDX-License-Identifier: Apache-2.0
// A GGUF file that recommends no sampling is sampled as its users know it from llama.cpp.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/folders.h"

namespace transom {
namespace {

TEST(GgufSampling, IsLlamaCppsWhereTheFileRecommendsNone) {
  const std::string file = test::source_folder() + "/tests/golden/quantized/gguf-qwen3-q4_0/model.gguf";
  const auto server = test::start_server({.models = {{"file", file}}});
  test::Client client(server->port());
  const auto text = [&](int64_t seed, const Json& fields) {
    Json body{{"prompt", "the"}, {"max_tokens", 12}, {"seed", seed}};
    body.update(fields);
    const test::Answer answer = client.post("/v1/completions", dump_json(body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return test::json_of(answer)["choices"][0]["text"].get<std::string>();
  };
  const Json llamas{{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.05}},
      plain{{"temperature", 1}, {"top_k", 0}, {"top_p", 1}, {"min_p", 0}};
  int others = 0;
  for (int64_t seed = 1; seed <= 6; ++seed) {
    EXPECT_EQ(text(seed, Json::object()), text(seed, llamas)) << seed;
    others += text(seed, llamas) != text(seed, plain);
  }
  EXPECT_GT(others, 2);
}

}  // namespace
}  // namespace transom
