// SPDX-License-Identifier: Apache-2.0
// transom bench serve: how a running server answers under load.
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "apps/cli/command.h"
#include "apps/cli/output/profile_table.h"
#include "apps/cli/remote/remote_server.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/progress.h"
#include "tools/bench/serve/load_report.h"
#include "tools/bench/serve/load_requests.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

struct BenchServeArguments {
  std::string base_url = "http://127.0.0.1:8000", backend = "openai", endpoint, model, tokenizer;
  std::string dataset_path, input_len = "1024", output_len = "128", request_rate = "inf", burstiness = "1";
  std::string metric_percentiles = "99", json, html, extra_body;
  std::vector<std::string> goodput, headers;
  std::optional<std::string> api_key;
  int64_t num_prompts = 1000, max_concurrency = 0, num_warmups = 0, seed = 0, random_prefix_len = 0;
  double request_timeout = 6 * 3600, ready_check_timeout = 60;
  bool ignore_eos = false, insecure = false, save_detailed = false;
  ModelOptions source;
};

// "inf", or a number above 0.
double rate_of(const std::string& text, const char* flag) {
  if (text == "inf") return HUGE_VAL;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0))
    fail(ErrorKind::kUsage, "{}: expected a number above 0, or inf, found {}", flag, quoted(text));
  return value;
}

std::vector<double> percentiles_of(const std::string& text) {
  std::vector<double> percentiles;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !(value >= 0 && value <= 100))
      fail(ErrorKind::kUsage, "--metric_percentiles: expected numbers from 0 to 100 with commas between, found {}",
           quoted(text));
    percentiles.push_back(value);
    begin = comma + 1;
  }
  return percentiles;
}

LoadApi api_of(const BenchServeArguments& o) {
  if (o.backend == "openai" || o.backend == "vllm") return LoadApi::kCompletions;
  if (o.backend == "openai-chat") return LoadApi::kChat;
  if (o.backend == "openai-embeddings") return LoadApi::kEmbeddings;
  fail(ErrorKind::kUsage, "--backend: expected openai, openai-chat or openai-embeddings, found {}", quoted(o.backend));
}

const char* endpoint_of(LoadApi api) {
  switch (api) {
    case LoadApi::kChat:
      return "/v1/chat/completions";
    case LoadApi::kEmbeddings:
      return "/v1/embeddings";
    default:
      return "/v1/completions";
  }
}

RequestHeaders headers_of(const BenchServeArguments& o) {
  RequestHeaders headers;
  for (const std::string& header : o.headers) {
    const size_t equals = header.find('=');
    if (equals == header.npos || equals == 0)
      fail(ErrorKind::kUsage, "--header: expected NAME=VALUE, found {}", quoted(header));
    headers.emplace_back(header.substr(0, equals), header.substr(equals + 1));
  }
  for (const auto& header : key_headers(o.api_key)) headers.push_back(header);
  return headers;
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

std::vector<LoadRequest> requests_of(const BenchServeArguments& o, const LengthRange& input, const LengthRange& output,
                                     const Tokenizer* tokenizer) {
  const auto seed = static_cast<uint64_t>(o.seed);
  if (!o.dataset_path.empty()) return requests_of_file(o.dataset_path, o.num_prompts, output, seed, tokenizer);
  return random_requests({o.num_prompts, input, output, o.random_prefix_len, seed}, tokenizer);
}

int run_bench_serve(const BenchServeArguments& o) {
  LoadTestReport report;
  LoadTestOptions& load = report.options;
  load.api = api_of(o);
  load.endpoint = o.endpoint.empty() ? endpoint_of(load.api) : o.endpoint;
  if (!load.endpoint.starts_with('/')) fail(ErrorKind::kUsage, "--endpoint: expected a path such as /v1/completions");
  load.headers = headers_of(o);
  load.extra_body = o.extra_body;
  load.request_rate = rate_of(o.request_rate, "--request_rate");
  load.burstiness = rate_of(o.burstiness, "--burstiness");
  load.max_concurrency = o.max_concurrency;
  load.num_warmups = o.num_warmups;
  load.ignore_eos = o.ignore_eos;
  load.seed = static_cast<uint64_t>(o.seed);
  if (o.num_prompts < 1 || o.num_prompts > 10'000'000)
    fail(ErrorKind::kUsage, "--num_prompts: expected 1 to 10000000, found {}", o.num_prompts);
  if (o.max_concurrency < 0 || o.num_warmups < 0 || o.random_prefix_len < 0)
    fail(ErrorKind::kUsage, "--max_concurrency, --num_warmups, --random_prefix_len: expected at least 0");
  if (!(o.request_timeout > 0)) fail(ErrorKind::kUsage, "--request_timeout: expected seconds above 0");
  const LengthRange input = parse_length_range(o.input_len, "--input_len"),
                    output = parse_length_range(o.output_len, "--output_len");
  const std::vector<double> percentiles = percentiles_of(o.metric_percentiles);
  report.level = parse_service_level(o.goodput, "--goodput");
  report.detailed = o.save_detailed;
  for (const std::string* file : {&o.json, &o.html}) expect_writable(*file);

  const client::HttpUrl server = client::parse_http_url(o.base_url, "--base_url");
  report.url = server.text();
  client::ClientOptions connection;
  connection.verify = !o.insecure;
  connection.request_timeout = std::chrono::milliseconds(static_cast<int64_t>(o.request_timeout * 1000));
  std::optional<Tokenizer> tokenizer;
  if (!o.tokenizer.empty()) tokenizer = Tokenizer::from_pretrained(resolve_model(o.tokenizer, o.source.hub()));
  load.model = served_model(server, connection, load.headers, o.ready_check_timeout, o.model);
  const std::vector<LoadRequest> requests = requests_of(o, input, output, tokenizer ? &*tokenizer : nullptr);
  const std::vector<double> times =
      arrival_times(requests.size(), load.request_rate, load.burstiness, static_cast<uint64_t>(o.seed));

  report.num_prompts = static_cast<int64_t>(requests.size());
  report.date = date_now();
  {
    Progress bar(stderr, "requests", report.num_prompts, "requests");
    report.result = run_load(server, connection, load, requests, times,
                             [&](size_t done) { bar.update(static_cast<int64_t>(done)); });
  }
  report.metrics = load_metrics(report.result, percentiles, report.level);
  size_t told = 0;
  for (const LoadOutcome& each : report.result.outcomes)
    if (!each.success && told++ < 10) std::fprintf(stderr, "transom: a request failed: %s\n", each.error.c_str());
  const std::string json = dump_json(load_json(report), 4) + "\n";
  if (o.json == "-") std::fputs(json.c_str(), stdout);
  else std::fputs(load_table(report).c_str(), stdout);
  if (!o.json.empty() && o.json != "-") write_file(o.json, json);
  if (!o.html.empty()) write_file(o.html, load_page(report));
  if (report.metrics.completed == 0) fail("{}: none of {} requests was answered", report.url, report.num_prompts);
  return 0;
}

std::vector<Option> load_options(BenchServeArguments& o) {
  return {{.name = "--num_prompts", .value = &o.num_prompts, .help = "requests", .group = "Load"},
          {.name = "--request_rate",
           .value = &o.request_rate,
           .help = "requests that arrive in a second, whatever the server does; inf: all at once",
           .group = "Load"},
          {.name = "--burstiness",
           .value = &o.burstiness,
           .help = "1: Poisson arrivals; less: in bursts; more: evenly (gamma distribution)",
           .group = "Load"},
          {.name = "--max_concurrency",
           .value = &o.max_concurrency,
           .help = "requests at once; others wait here; 0: no limit",
           .group = "Load"},
          {.name = "--input_len",
           .value = &o.input_len,
           .help = "tokens of random prompts: 128, or any of 64:256",
           .group = "Load"},
          {.name = "--output_len",
           .value = &o.output_len,
           .help = "tokens that are asked for: 128, or any of 64:256",
           .group = "Load"},
          {.name = "--random_prefix_len",
           .value = &o.random_prefix_len,
           .help = "tokens at the front that all random prompts share",
           .group = "Load"},
          {.name = "--dataset_path",
           .value = &o.dataset_path,
           .help = "prompts of a file: ShareGPT's JSON, lines of JSON with prompt or messages, or lines of text (.txt)",
           .group = "Load"},
          {.name = "--tokenizer",
           .value = &o.tokenizer,
           .help = "model whose tokenizer counts the tokens of prompts (default: a word is a token)",
           .group = "Load"},
          {.name = "--ignore_eos",
           .value = &o.ignore_eos,
           .help = "answers have the whole length that is asked for",
           .group = "Load"},
          {.name = "--num_warmups",
           .value = &o.num_warmups,
           .help = "requests before, which are not measured",
           .group = "Load"},
          {.name = "--seed", .value = &o.seed, .help = "seed of prompts, lengths and arrivals", .group = "Load"}};
}

std::vector<Option> report_options(BenchServeArguments& o) {
  return {{.name = "--goodput",
           .value = &o.goodput,
           .help = "service level in milliseconds: ttft:200 tpot:50 e2el:3000",
           .group = "Report"},
          {.name = "--metric_percentiles",
           .value = &o.metric_percentiles,
           .help = "with commas between: 50,90,99",
           .group = "Report"},
          {.name = "--json",
           .value = &o.json,
           .help = "write the figures here, under vLLM's names; without a name, print them",
           .value_optional = true,
           .group = "Report"},
          {.name = "--save_detailed",
           .value = &o.save_detailed,
           .help = "the JSON also holds each request",
           .group = "Report"},
          {.name = "--html", .value = &o.html, .help = "write a page with pictures here", .group = "Report"}};
}

}  // namespace

Command bench_serve_command() {
  static BenchServeArguments o;
  Command command{
      .name = "bench serve",
      .help = "Measure a running server under load: latencies, throughput and goodput, as vLLM's bench defines them",
      .examples =
          "  transom bench serve --base_url http://localhost:8000 --num_prompts 200 --request_rate 4\n"
          "  transom bench serve --backend openai-chat --input_len 64:512 --output_len 32:128 --goodput ttft:200 "
          "tpot:50\n"
          "  transom bench serve --max_concurrency 8 --dataset_path prompts.jsonl --json load.json --html load.html\n"};
  command.options = {{"--base_url", &o.base_url, "where the server is"},
                     {"--backend", &o.backend, "openai (completions), openai-chat or openai-embeddings"},
                     {"--endpoint", &o.endpoint, "path behind the URL (default: that of the backend)"},
                     {kModelFlag, &o.model, "name of the model there (default: the first that /v1/models lists)"},
                     {"--api_key", &o.api_key, "key that the server wants (also OPENAI_API_KEY)"},
                     {.name = "--header",
                      .value = &o.headers,
                      .help = "NAME=VALUE, sent with each request; may be given again",
                      .takes = Option::Words::kOne},
                     {"--extra_body", &o.extra_body, "JSON object whose fields each request has"},
                     {"--insecure", &o.insecure, "certificates of https are not checked"},
                     {"--request_timeout", &o.request_timeout, "seconds that an answer may take"},
                     {"--ready_check_timeout", &o.ready_check_timeout, "seconds to wait until the server answers"}};
  for (std::vector<Option>& group : std::array{load_options(o), report_options(o)})
    std::ranges::move(group, std::back_inserter(command.options));
  o.source.add_to(command);
  command.run = [] { return run_bench_serve(o); };
  return command;
}

}  // namespace transom
