// SPDX-License-Identifier: Apache-2.0
// What vLLM's dashboards read of a model that writes.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"

namespace transom {
namespace {

using test::Client;
using test::json_of;

double value_of(const std::string& metrics, const std::string& series) {
  const size_t at = metrics.find("\n" + series + " ");
  return at == metrics.npos ? -1 : std::stod(metrics.substr(at + series.size() + 2));
}

TEST(GenerationMetrics, SayWhatRequestsTook) {
  if (!test::has_golden("llama-lm")) GTEST_SKIP() << "no golden models";
  const auto server = test::start_server({.models = {test::golden_model("llama-lm", "chat")}});
  Json prompt = Json::array();
  for (int i = 0; i < 40; ++i) prompt.push_back(5 + i);
  const Json body{{"prompt", prompt}, {"max_tokens", 4}, {"n", 3}, {"temperature", 1}, {"ignore_eos", true}};
  Client client(server->port());
  const auto cached = [&] {
    const Json usage = json_of(client.post("/v1/completions", dump_json(body)))["usage"];
    EXPECT_EQ(usage["prompt_tokens"], 40);
    return usage["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
  };
  EXPECT_EQ(cached(), 0);  // its own samples share the prompt, which was read for them
  EXPECT_EQ(cached(), 32);
  const std::string metrics = client.get("/metrics").body;
  const auto of = [&](const std::string& name, const std::string& more = "") {
    return value_of(metrics, name + "{engine=\"0\",model_name=\"chat\"" + more + "}");
  };
  EXPECT_EQ(of("vllm:prompt_tokens_total"), 80);
  EXPECT_EQ(of("vllm:prompt_tokens_cached_total"), 32);
  EXPECT_EQ(of("vllm:prompt_tokens_by_source_total", ",source=\"local_compute\""), 48);
  EXPECT_EQ(of("vllm:prompt_tokens_by_source_total", ",source=\"local_cache_hit\""), 32);
  EXPECT_EQ(of("vllm:request_prefill_kv_computed_tokens_sum"), 48);
  EXPECT_EQ(of("vllm:request_max_num_generation_tokens_sum"), 8);
  EXPECT_EQ(of("vllm:request_max_num_generation_tokens_count"), 2);
  EXPECT_EQ(of("vllm:request_generation_tokens_count"), 6);
  EXPECT_EQ(of("vllm:request_params_n_sum"), 6);
  EXPECT_EQ(of("vllm:num_requests_waiting_by_reason", ",reason=\"capacity\""), 0);
  EXPECT_EQ(of("vllm:num_requests_waiting_by_reason", ",reason=\"deferred\""), 0);
  // All that was read and written, in more steps than one.
  EXPECT_GE(of("vllm:iteration_tokens_total_sum"), 48 + 24);
  EXPECT_GT(of("vllm:iteration_tokens_total_count"), 4);
  EXPECT_EQ(of("vllm:iteration_tokens_total_bucket", ",le=\"+Inf\""), of("vllm:iteration_tokens_total_count"));
}

}  // namespace
}  // namespace transom
