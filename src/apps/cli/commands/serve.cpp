// SPDX-License-Identifier: Apache-2.0
// transom serve: models behind HTTP, until SIGTERM or SIGINT.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <iterator>

#include "apps/cli/command.h"
#include "apps/cli/ending_signals.h"
#include "apps/cli/options/sharding_options.h"
#include "apps/cli/output/log_messages.h"
#include "apps/serve/api/speculative_config.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/server/server.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/line_writer.h"
#include "base/terminal/progress.h"
#include "files/hub/resolve.h"
#include "models/loading/weights/missing_weights.h"
#include "runtime/distributed/process_group.h"
#include "transom/distributed.h"
#include "transom/model.h"
#include "work/generation/processes/follow.h"

namespace transom {
namespace {

struct ServeArguments {
  std::vector<std::string> models, names, api_keys, adapters;
  std::optional<std::string> api_key_file, chat_template, speculative;
  std::string host = "127.0.0.1", log = "auto", scheduling_policy = "fcfs", reasoning = "auto";
  int64_t port = 8000;
  double shutdown_timeout = 30, request_timeout = 600;
  serve::ServeOptions serve;
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions precision;
  ShardingOptions sharding;
};

std::vector<std::string> words_of(const std::vector<std::string>& given) {
  std::vector<std::string> words;
  for (const std::string& text : given)
    for (size_t begin = 0; begin <= text.size();) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      if (comma > begin) words.push_back(text.substr(begin, comma - begin));
      begin = comma + 1;
    }
  return words;
}

// A path is served under the name of its folder, an id of the Hub under itself; NAME=PATH says another one. A name may
// be that of an organisation too (org/model=PATH), but what is there under the whole word is a path.
std::vector<serve::ModelSource> sources_of(const ServeArguments& o) {
  std::vector<serve::ModelSource> sources;
  for (const std::string& word : o.models) {
    const size_t equals = word.find('=');
    if (equals != word.npos && equals > 0 && !word.starts_with('/') && !word.starts_with('.') && !path_exists(word)) {
      sources.push_back({word.substr(0, equals), word.substr(equals + 1)});
      continue;
    }
    sources.push_back({word, word});
  }
  const std::vector<std::string> names = words_of(o.names);
  if (names.empty()) return sources;
  if (names.size() != sources.size())
    fail(ErrorKind::kUsage, "--served_model_name: expected {} names with commas between, one a model, found {}",
         sources.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) sources[i].name = names[i];
  return sources;
}

// Keys may stand where `ps` does not show them: a file, or TRANSOM_API_KEY.
std::vector<std::string> keys_of(const ServeArguments& o) {
  std::vector<std::string> keys = o.api_keys;
  if (const char* key = std::getenv("TRANSOM_API_KEY"); key && *key) keys.emplace_back(key);
  if (!o.api_key_file) return keys;
  const std::string text = read_file(*o.api_key_file);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    if (end > begin) keys.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (keys.empty()) fail("--api_key_file {}: the file holds no key", quoted(*o.api_key_file));
  return keys;
}

void expect_one_of(const char* flag, const std::string& value, std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), value) == words.end())
    fail(ErrorKind::kUsage, "{}: expected {}, found {}", flag, fmt::join(words, ", "), quoted(value));
}

// Flags that take one of a few words.
void read_words(ServeArguments& o) {
  expect_one_of("--reasoning_parser", o.reasoning, {"auto", "none"});
  o.serve.tells_thoughts = o.reasoning == "auto";
  expect_one_of("--log", o.log, {"auto", "json", "none"});
  expect_one_of("--kv_cache_dtype", o.serve.kv_cache_dtype, {"auto", "float32", "float16", "bfloat16"});
  expect_one_of("--scheduling_policy", o.scheduling_policy, {"fcfs", "priority"});
  o.serve.by_priority = o.scheduling_policy == "priority";
}

void check_limits(const serve::ServeOptions& serve) {
  if (!serve.adapter_folder.empty() && !directory_exists(serve.adapter_folder))
    fail(ErrorKind::kUsage, "--lora_folder: expected a directory, found {}", quoted(serve.adapter_folder));
  if (!serve.adapter_folder.empty() && serve.memory_budget > 0)
    fail(ErrorKind::kUsage, "--lora_folder: not with --memory_budget, which would lose what was loaded");
  const auto expect = [](const char* flag, int64_t value, int64_t least) {
    if (value < least) fail(ErrorKind::kUsage, "{}: expected at least {}, found {}", flag, least, value);
  };
  expect("--num_assistant_tokens", serve.num_assistant_tokens, 1);
  expect("--max_model_length", serve.max_model_length, 0);
  expect("--max_batched_tokens", serve.max_batched_tokens, 1);
  expect("--max_sequences", serve.max_sequences, 1);
  expect("--cache_bytes", serve.cache_bytes, 0);
  expect("--prefix_cache_disk_bytes", serve.prefix_cache_disk_bytes, 1);
  expect("--memory_budget", serve.memory_budget, 0);
  expect("--max_waiting", serve.max_waiting, 1);
  expect("--max_concurrent_requests", serve.max_concurrent_requests, 1);
  expect("--max_batch_tokens", serve.max_batch_tokens, 1);
  expect("--max_client_batch_size", serve.max_client_batch_size, 1);
  expect("--max_connections", serve.http.max_connections, 1);
  expect("--max_images", serve.most_images, 0);
  expect("--max_image_pixels", serve.most_image_pixels, 1);
}

// What a second had, in one line.
class StatusLine {
 public:
  StatusLine(LineWriter& to, bool shown) : to_(to), shown_(shown) {}
  void show(const serve::ServerStatistics& now, double seconds) {
    if (!shown_) return;
    const bool idle = now.active == 0 && now.requests == before_.requests &&
                      now.generated_tokens == before_.generated_tokens && now.prompt_tokens == before_.prompt_tokens;
    if (!idle)
      to_.write(
          fmt::format("{:>5} connections  {:>4} in work  {:>4} waiting  {:>8.1f} tokens/s read  {:>8.1f} tokens/s "
                      "written  {:>7.1f} inputs/s",
                      now.connections, now.active, now.waiting,
                      static_cast<double>(now.prompt_tokens - before_.prompt_tokens) / seconds,
                      static_cast<double>(now.generated_tokens - before_.generated_tokens) / seconds,
                      static_cast<double>(now.requests - before_.requests) / seconds));
    before_ = now;
  }

 private:
  LineWriter& to_;
  bool shown_;
  serve::ServerStatistics before_;
};

// What the server says goes through a writer: a standard error that nobody reads must hold up no request.
class Says {
 public:
  Says() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      if (is_said(level, "passive")) note(text);
    });
  }
  ~Says() { print_log_messages(); }
  Says(const Says&) = delete;
  Says& operator=(const Says&) = delete;
  void note(std::string_view text) { writer.write(fmt::format("transom: {}", text)); }
  LineWriter writer{STDERR_FILENO};
};

// One model is served over all processes, of which the first one answers.
void join_server(const ServeArguments& o) {
  if (o.serve.models.size() != 1 || o.serve.memory_budget > 0 || !o.serve.adapters.empty() ||
      !o.serve.assistant_model.empty() || !o.serve.adapter_folder.empty())
    fail(ErrorKind::kUsage,
         "--tp_size, --pp_size, --ep_size: expected one MODEL, without --memory_budget, --lora, --lora_folder and "
         "--assistant_model");
  const std::string directory = resolve_model(o.serve.models[0].path, o.serve.hub).string();
  const std::string task = o.serve.task.empty() ? task_of_model(directory) : o.serve.task;
  if (task != "text-generation")
    fail(ErrorKind::kUsage, "--tp_size, --pp_size, --ep_size: expected a model that generates text, found one for {}",
         task);
  // Nobody may ask for days; who is lost is noticed all the same.
  constexpr double kYears = 1e9;
  o.sharding.join(kYears);
}

// What the other processes do until the first one ends.
int follow(const ServeArguments& o) {
  LoadOptions load = o.serve.load;
  load.task = "text-generation";
  {
    const auto model = load_trained(resolve_model(o.serve.models[0].path, o.serve.hub).string(), load);
    const auto evaluator = o.sharding.spread(*model);
    follow_engine(*model, *evaluator);
  }
  leave_process_group();
  return 0;
}

int run_serve(ServeArguments& o) {
  const EndingSignals signals;
  o.serve.http.port = listening_port(o.port);
  o.serve.models = sources_of(o);
  o.serve.api_keys = keys_of(o);
  o.serve.http.host = o.host;
  o.serve.version = TRANSOM_VERSION;
  o.serve.hub = o.source.hub();
  if (o.speculative) serve::read_speculative_config(*o.speculative, o.serve);
  check_limits(o.serve);
  read_words(o);
  if (!(o.request_timeout > 0)) fail(ErrorKind::kUsage, "--request_timeout: expected seconds above 0");
  o.serve.request_timeout = std::chrono::milliseconds(static_cast<int64_t>(o.request_timeout * 1000));
  if (o.chat_template) o.serve.chat_template = read_file(*o.chat_template);
  for (const std::string& adapter : words_of(o.adapters)) {
    const size_t equals = adapter.find('=');
    if (equals == adapter.npos || equals == 0)
      fail(ErrorKind::kUsage, "--lora: expected NAME=DIRECTORY, found {}", quoted(adapter));
    o.serve.adapters.emplace_back(adapter.substr(0, equals), adapter.substr(equals + 1));
  }
  o.device.apply();
  o.precision.apply_to(o.serve.load);
  Says says;
  if (o.sharding.any()) {
    join_server(o);
    if (process_rank() > 0) return follow(o);
    o.serve.spread = [&o](Model& model) { return std::shared_ptr<Evaluator>(o.sharding.spread(model)); };
  }
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (o.log == "json" || (o.log == "auto" && !terminal))
    o.serve.log_request = [&says](std::string_view line) { says.writer.write(line); };
  const bool everyone = o.host != "127.0.0.1" && o.host != "localhost" && o.host != "::1";
  if (everyone && o.serve.api_keys.empty())
    says.note(fmt::format("{} is open to the network and there is no --api_key: everyone may ask", o.host));
  serve::Server server(o.serve);
  server.start();
  const char* scheme = o.serve.http.ssl_certfile.empty() ? "http" : "https";
  {
    Progress progress(stderr, "loading", static_cast<int64_t>(o.serve.models.size()), "models");
    server.load([&](size_t number, const std::string& name) {
      progress.update(static_cast<int64_t>(number), {{"model", name}});
    });
    progress.update(static_cast<int64_t>(o.serve.models.size()));
  }
  says.note(
      fmt::format("serving {} on {}://{}:{}",
                  o.serve.models.size() == 1 ? o.serve.models[0].name : fmt::format("{} models", o.serve.models.size()),
                  scheme, o.host, server.port()));
  StatusLine status(says.writer, terminal && o.log != "none");
  while (!signals.come_within(std::chrono::seconds(1))) {
    status.show(server.statistics(), 1);
    if (ProcessGroup* group = process_group()) group->expect_all_there();
  }
  says.note(
      fmt::format("ending; running requests get {:g} s to finish (a second signal ends now)", o.shutdown_timeout));
  server.drain();
  signals.wait_until_idle(o.shutdown_timeout, [&] { return server.wait_until_idle(std::chrono::milliseconds(0)); });
  // What was answered last is still on its way to the client.
  signals.come_within(std::chrono::milliseconds(100));
  server.stop();
  if (o.sharding.any()) leave_process_group();
  return 0;
}

std::vector<Option> server_options(ServeArguments& o) {
  return {
      {.name = "--api_key",
       .value = &o.api_keys,
       .help = "key that clients must send; may be given again (also TRANSOM_API_KEY)",
       .group = "Server",
       .takes = Option::Words::kOne},
      {.name = "--api_key_file", .value = &o.api_key_file, .help = "file with a key a line", .group = "Server"},
      {.name = "--ssl_certfile",
       .value = &o.serve.http.ssl_certfile,
       .help = "certificate chain (PEM): TLS",
       .group = "Server"},
      {.name = "--ssl_keyfile", .value = &o.serve.http.ssl_keyfile, .help = "its private key (PEM)", .group = "Server"},
      {.name = "--cors_allow_origin",
       .value = &o.serve.cors_allow_origin,
       .help = "origin whose pages may ask, or *",
       .group = "Server"},
      {.name = "--log",
       .value = &o.log,
       .help = "json: a line a request; none; auto: json unless on a terminal",
       .group = "Server"},
      {.name = "--log_prompts", .value = &o.serve.log_prompts, .help = "bodies are in the log, too", .group = "Server"},
      {.name = "--shutdown_timeout",
       .value = &o.shutdown_timeout,
       .help = "seconds that running requests get to finish after SIGTERM",
       .group = "Server"},
      {.name = "--chat_template",
       .value = &o.chat_template,
       .help = "file with a Jinja template in place of the model's",
       .group = "Server"},
      {.name = "--reasoning_parser",
       .value = &o.reasoning,
       .help = "auto: what a model thinks is told from its answer (reasoning_content); none: it stays in the text",
       .group = "Server"},
      {.name = "--trust_request_chat_template",
       .value = &o.serve.trust_request_chat_template,
       .help = "requests may bring a template",
       .group = "Server"},
      {.name = "--generation_config",
       .value = &o.serve.generation_config,
       .help = "auto: generation_config.json gives defaults; none",
       .group = "Server"},
      {.name = "--assistant_model",
       .value = &o.serve.assistant_model,
       .help = "smaller model of the same tokens, whose drafts the models verify: the same text, sooner",
       .group = "Server"},
      {.name = "--num_assistant_tokens",
       .value = &o.serve.num_assistant_tokens,
       .help = "tokens of a draft",
       .group = "Server"},
      {.name = "--speculative_config",
       .value = &o.speculative,
       .help = "drafts, by vLLM's JSON: {\"method\": \"suffix\"}, ngram, mtp, or eagle3 or draft_model with its "
               "\"model\"",
       .group = "Server"},
      {.name = "--lora", .value = &o.adapters, .help = "NAME=DIRECTORY of a LoRA adapter", .group = "Server"},
      {.name = "--lora_folder",
       .value = &o.serve.adapter_folder,
       .help = "folder whose LoRA adapters clients may load and unload over HTTP (/v1/load_lora_adapter)",
       .group = "Server"},
      {.name = "--batch_folder",
       .value = &o.serve.batch_folder,
       .help = "folder for files and batches of clients (/v1/files, /v1/batches); it outlives the server",
       .group = "Server"}};
}

std::vector<Option> limit_options(ServeArguments& o) {
  return {{.name = "--max_model_length",
           .value = &o.serve.max_model_length,
           .help = "tokens of prompt and answer; 0: the model's",
           .group = "Limits"},
          {.name = "--max_batched_tokens",
           .value = &o.serve.max_batched_tokens,
           .help = "tokens of a step of generation",
           .group = "Limits"},
          {.name = "--step_milliseconds",
           .value = &o.serve.step_milliseconds,
           .help = "target time of a step that mixes decoding and prefill (chunked prefill); 0: no limit",
           .group = "Limits"},
          {.name = "--max_sequences",
           .value = &o.serve.max_sequences,
           .help = "maximum number of sequences generated at the same time",
           .group = "Limits"},
          {.name = "--cache_bytes",
           .value = &o.serve.cache_bytes,
           .help = "memory of the KV cache; 0: a share of what is free",
           .group = "Limits"},
          {.name = "--kv_cache_dtype",
           .value = &o.serve.kv_cache_dtype,
           .help = "type of its keys and values: float32, float16, bfloat16; auto: as the model computes, float16 "
                   "beside inputs in 8 bits",
           .group = "Limits"},
          {.name = "--prefix_cache_dir",
           .value = &o.serve.prefix_cache_directory,
           .help = "folder where the beginnings of texts are kept over restarts (generation)",
           .group = "Limits"},
          {.name = "--prefix_cache_disk_bytes",
           .value = &o.serve.prefix_cache_disk_bytes,
           .help = "bytes of all files of --prefix_cache_dir; those used longest ago go",
           .group = "Limits"},
          {.name = "--memory_budget",
           .value = &o.serve.memory_budget,
           .help = "bytes of all models together; those used least recently make room; 0: all stay in memory",
           .group = "Limits"},
          {.name = "--scheduling_policy",
           .value = &o.scheduling_policy,
           .help = "fcfs: in order of arrival; priority: by the field `priority` of requests, which any client may set",
           .group = "Limits"},
          {.name = "--max_waiting",
           .value = &o.serve.max_waiting,
           .help = "generation requests that wait; more: 429 (all prompts of a request are taken together)",
           .group = "Limits"},
          {.name = "--max_concurrent_requests",
           .value = &o.serve.max_concurrent_requests,
           .help = "requests in work; more: 429",
           .group = "Limits"},
          {.name = "--max_images",
           .value = &o.serve.most_images,
           .help = "pictures among the messages of a request; more: 400",
           .group = "Limits"},
          {.name = "--max_image_pixels",
           .value = &o.serve.most_image_pixels,
           .help = "pixels of such a picture; more: 400, before any is decoded",
           .group = "Limits"},
          {.name = "--max_batch_tokens",
           .value = &o.serve.max_batch_tokens,
           .help = "tokens of a batch of an encoder",
           .group = "Limits"},
          {.name = "--max_client_batch_size",
           .value = &o.serve.max_client_batch_size,
           .help = "inputs of one request",
           .group = "Limits"},
          {.name = "--max_connections",
           .value = &o.serve.http.max_connections,
           .help = "connections at once; more: 503",
           .group = "Limits"},
          {.name = "--request_timeout",
           .value = &o.request_timeout,
           .help = "seconds that a request may take",
           .group = "Limits"}};
}

}  // namespace

Command serve_command() {
  static ServeArguments o;
  Command command{.name = "serve",
                  .help = "Serve models over HTTP, as OpenAI, Anthropic, vLLM, TEI, TGI and Ollama are asked",
                  .examples =
                      "  transom serve MODEL --port 8000\n"
                      "  transom serve chat=MODEL embed=MODEL --api_key KEY\n"
                      "  curl localhost:8000/v1/models\n"};
  command.options = {{"MODEL,--model,-m", &o.models,
                      "directories of checkpoints, .gguf files or ids of the Hub; NAME=MODEL gives a name", true},
                     {"--host", &o.host, "address to listen on; 0.0.0.0 for all"},
                     {"--port", &o.port, "port to listen on; 0: any that is free"},
                     {"--served_model_name", &o.names, "names that clients use, with commas between, one a model"},
                     {"--task", &o.serve.task, "task of the models (default: what their architecture is for)"}};
  for (std::vector<Option>& group : std::array{server_options(o), limit_options(o)})
    std::ranges::move(group, std::back_inserter(command.options));
  o.source.add_to(command);
  o.device.add_to(command);
  o.precision.add_to(command);
  o.sharding.add_to(command);
  command.run = [] { return run_serve(o); };
  return command;
}

}  // namespace transom
