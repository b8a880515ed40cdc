// SPDX-License-Identifier: Apache-2.0
// What a load test sends, and what its figures are.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "tools/bench/serve/load_report.h"
#include "tools/bench/serve/load_requests.h"

namespace transom {
namespace {

TEST(LoadRequests, LengthsAreFixedOrRanged) {
  EXPECT_EQ(parse_length_range("128", "--input_len").most, 128);
  const LengthRange range = parse_length_range("3:7", "--input_len");
  EXPECT_EQ(range.least, 3);
  EXPECT_EQ(range.most, 7);
  for (const char* text : {"", "0", "-1", "a", "7:3", "3:", ":3", "3:x", "99999999999999999999"})
    EXPECT_THROW(parse_length_range(text, "--input_len"), Error) << text;
}

TEST(LoadRequests, SeedsRepeat) {
  const RandomTexts texts{.count = 20, .input = {3, 9}, .output = {2, 5}, .prefix = 4, .seed = 7};
  const std::vector<LoadRequest> first = random_requests(texts, nullptr), again = random_requests(texts, nullptr);
  RandomTexts others = texts;
  others.seed = 8;
  const std::vector<LoadRequest> other = random_requests(others, nullptr);
  ASSERT_EQ(first.size(), 20u);
  size_t different = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].prompt, again[i].prompt);
    different += first[i].prompt != other[i].prompt;
    const auto words = 1 + std::count(first[i].prompt.begin(), first[i].prompt.end(), ' ');
    EXPECT_GE(words, 3 + 4);
    EXPECT_LE(words, 9 + 4);
    EXPECT_GE(first[i].output_tokens, 2);
    EXPECT_LE(first[i].output_tokens, 5);
  }
  EXPECT_EQ(different, 20u);
}

TEST(LoadRequests, ArrivalsKeepTheRate) {
  for (const double burstiness : {0.3, 1.0, 5.0, HUGE_VAL}) {
    const std::vector<double> times = arrival_times(400, 20, burstiness, 3);
    EXPECT_NEAR(times.back(), 20, 1e-9) << burstiness;
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    double squares = 0;
    for (size_t i = 1; i < times.size(); ++i) squares += std::pow(times[i] - times[i - 1] - 0.05, 2);
    // The gamma distribution's deviation is the mean divided by the root of its shape.
    const double expected = std::isinf(burstiness) ? 0 : 0.05 / std::sqrt(burstiness);
    EXPECT_NEAR(std::sqrt(squares / 399), expected, 0.25 * expected + 1e-9) << burstiness;
  }
  EXPECT_EQ(arrival_times(3, HUGE_VAL, 1, 0), (std::vector<double>{0, 0, 0}));
  EXPECT_NE(arrival_times(3, 1, 1, 0), arrival_times(3, 1, 1, 1));
}

TEST(LoadRequests, ReadsDataSets) {
  const test::TemporaryFolder folder;
  folder.write("share.json", R"([{"conversations":[{"from":"human","value":"Why?"},{"value":"Because of it all."}]},
                                 {"conversations":[{"value":"alone"}]}])");
  std::vector<LoadRequest> requests = requests_of_file(folder / "share.json", 2, {5, 5}, 0, nullptr);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].prompt, "Why?");
  EXPECT_EQ(requests[0].output_tokens, 4);
  folder.write("lines.jsonl",
               "{\"prompt\": \"a\", \"output_tokens\": 3}\n\n{\"messages\": [{\"role\": \"user\"}]}\r\n");
  requests = requests_of_file(folder / "lines.jsonl", 4, {9, 9}, 1, nullptr);
  int64_t chats = 0, lengths = 0;
  for (const LoadRequest& each : requests) chats += each.messages, lengths += each.output_tokens;
  EXPECT_EQ(chats, 2);
  EXPECT_EQ(lengths, 2 * (3 + 9));
  folder.write("lines.txt", "one\ntwo\n");
  EXPECT_EQ(requests_of_file(folder / "lines.txt", 2, {9, 9}, 1, nullptr).size(), 2u);
  for (const char* text : {"", "[]", "[1]", "{", "{}", "{\"prompt\": 3}", "{\"prompt\": \"a\", \"max_tokens\": 0}",
                           "{\"messages\": []}", "[{\"conversations\": [{\"value\": 1}, {\"value\": \"b\"}]}]"}) {
    folder.write("bad.json", text);
    EXPECT_THROW(requests_of_file(folder / "bad.json", 1, {9, 9}, 1, nullptr), Error) << text;
  }
}

// Three requests whose figures can be told by hand; the third one failed.
LoadResult small_result() {
  LoadResult result;
  result.duration = 4;
  result.outcomes.push_back({.success = true,
                             .text = "abc",
                             .start = 0,
                             .first_token = 0.1,
                             .latency = 0.5,
                             .gaps = {0.1, 0.3},
                             .prompt_tokens = 10,
                             .output_tokens = 5});
  result.outcomes.push_back({.success = true,
                             .text = "d",
                             .start = 0.2,
                             .first_token = 0.3,
                             .latency = 0.3,
                             .gaps = {},
                             .prompt_tokens = 20,
                             .output_tokens = 1});
  result.outcomes.push_back({.success = false, .error = "<refused>", .start = 1});
  return result;
}

TEST(LoadMetrics, AreThoseOfVllm) {
  const LoadMetrics m = load_metrics(small_result(), {50, 99}, {{"ttft", 200}});
  EXPECT_EQ(m.completed, 2);
  EXPECT_EQ(m.failed, 1);
  EXPECT_EQ(m.input_tokens, 30);
  EXPECT_EQ(m.output_tokens, 6);
  EXPECT_DOUBLE_EQ(m.request_throughput, 0.5);
  EXPECT_DOUBLE_EQ(m.request_goodput, 0.25);
  EXPECT_DOUBLE_EQ(m.output_throughput, 1.5);
  EXPECT_DOUBLE_EQ(m.total_token_throughput, 9);
  EXPECT_EQ(m.most_concurrent, 2);
  EXPECT_DOUBLE_EQ(m.most_output_tokens_per_second, 4);
  EXPECT_NEAR(m.ttft.mean, 200, 1e-9);
  EXPECT_NEAR(m.ttft.deviation, 100, 1e-9);
  EXPECT_NEAR(m.ttft.percentiles[1].second, 100 + 0.99 * 200, 1e-9);
  EXPECT_NEAR(m.tpot.mean, 100, 1e-9);  // of the first alone: (0.5 - 0.1) / 4
  EXPECT_NEAR(m.itl.median, 200, 1e-9);
  EXPECT_NEAR(m.e2el.mean, 400, 1e-9);
  const LoadMetrics strict = load_metrics(small_result(), {99}, {{"tpot", 99}, {"e2el", 1000}});
  EXPECT_EQ(strict.good, 1);  // one token has no time between tokens
}

TEST(LoadMetrics, TakeNothingAtAll) {
  LoadResult result;
  result.outcomes.push_back({.error = "no"});
  const LoadMetrics m = load_metrics(result, {99}, {});
  EXPECT_EQ(m.completed, 0);
  EXPECT_EQ(m.ttft.mean, 0);
  EXPECT_EQ(m.most_output_tokens_per_second, 0);
  EXPECT_EQ(percentile({}, 50), 0);
  EXPECT_EQ(percentile({3, 1, 2}, 100), 3);
}

TEST(LoadMetrics, ServiceLevelsAreChecked) {
  EXPECT_EQ(parse_service_level({"ttft:200", "e2el:1.5"}, "--goodput").at("e2el"), 1.5);
  for (const char* word : {"ttft", "ttft:", "ttft:x", "ttft:-1", "itl:5", "ttft:1e999", ":5"})
    EXPECT_THROW(parse_service_level({word}, "--goodput"), Error) << word;
}

TEST(LoadReport, HasVllmsNames) {
  LoadTestReport report{.url = "http://a:1", .date = "20260101-000000", .num_prompts = 3, .level = {{"ttft", 200}}};
  report.options.model = "m<1>";
  report.result = small_result();
  report.metrics = load_metrics(report.result, {50, 99.9}, report.level);
  const Json json = load_json(report);
  for (const char* name : {"duration",
                           "completed",
                           "failed",
                           "total_input_tokens",
                           "total_output_tokens",
                           "request_throughput",
                           "request_goodput",
                           "output_throughput",
                           "total_token_throughput",
                           "max_output_tokens_per_s",
                           "max_concurrent_requests",
                           "mean_ttft_ms",
                           "median_ttft_ms",
                           "std_ttft_ms",
                           "p50_ttft_ms",
                           "p99.9_ttft_ms",
                           "mean_tpot_ms",
                           "p99.9_itl_ms",
                           "median_e2el_ms",
                           "num_prompts",
                           "model_id"})
    EXPECT_TRUE(json.contains(name)) << name;
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_FALSE(json.contains("ttfts"));
  report.detailed = true;
  EXPECT_EQ(load_json(report)["errors"][2], "<refused>");
  EXPECT_EQ(load_json(report)["itls"][0].size(), 2u);
  const std::string page = load_page(report);
  EXPECT_NE(page.find("m&lt;1&gt;"), page.npos);
  EXPECT_EQ(page.find("<refused>"), page.npos);
  EXPECT_NE(page.find("<svg"), page.npos);
  EXPECT_EQ(page.find("nan"), page.npos);
  EXPECT_NE(load_table(report).find("requests/s within the service level"), std::string::npos);
}

TEST(LoadBody, IsWhatTheInterfaceTakes) {
  LoadTestOptions options{.model = "m", .extra_body = "{\"top_k\": 3}", .ignore_eos = true};
  const LoadRequest request{.prompt = "a", .output_tokens = 7};
  Json body = parse_json(load_body(options, request), "body");
  EXPECT_EQ(body["prompt"], "a");
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["top_k"], 3);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  options.api = LoadApi::kChat;
  body = parse_json(load_body(options, request), "body");
  EXPECT_EQ(body["messages"][0]["content"], "a");
  EXPECT_EQ(body["max_completion_tokens"], 7);
  options.api = LoadApi::kEmbeddings;
  body = parse_json(load_body(options, request), "body");
  EXPECT_EQ(body["input"], "a");
  EXPECT_FALSE(body.contains("stream"));
  EXPECT_THROW(load_body(options, {.prompt = "[]", .messages = true}), Error);
  options.extra_body = "[]";
  EXPECT_THROW(load_body(options, request), Error);
}

}  // namespace
}  // namespace transom
