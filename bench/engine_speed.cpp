// SPDX-License-Identifier: Apache-2.0
// The engine beside generate(): a prompt, one sequence, and many sequences at once.
//   engine_speed MODEL [--dtype float32|bfloat16] [--activations float32|int8] [--prompt 512] [--tokens 32] [--clients
//   8]
//     [--prompts_each 4] [--step_milliseconds 30] [--cache_dtype auto]
// Each case runs twice; the first run compiles and packs, the second is printed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>

#include "base/error.h"
#include "transom/caches.h"
#include "transom/engine.h"

namespace transom {
namespace {

struct Options {
  std::string model, dtype = "float32", activations = "float32", cache_dtype = "auto";
  int64_t prompt = 512, tokens = 32, clients = 8, prompts_each = 4, step_milliseconds = 30;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto next = [&]() -> std::string { return i + 1 < count ? words[++i] : ""; };
    if (word == "--dtype") options.dtype = next();
    else if (word == "--activations") options.activations = next();
    else if (word == "--cache_dtype") options.cache_dtype = next();
    else if (word == "--prompts_each") options.prompts_each = std::atoll(next().c_str());
    else if (word == "--step_milliseconds") options.step_milliseconds = std::atoll(next().c_str());
    else if (word == "--prompt") options.prompt = std::atoll(next().c_str());
    else if (word == "--tokens") options.tokens = std::atoll(next().c_str());
    else if (word == "--clients") options.clients = std::atoll(next().c_str());
    else options.model = word;
  }
  if (options.model.empty() || options.prompt < 1 || options.tokens < 1 || options.clients < 1 ||
      options.prompts_each < 1)
    fail(ErrorKind::kUsage,
         "expected: engine_speed MODEL [--dtype D] [--activations A] [--prompt N] [--tokens N] [--clients N] "
         "[--prompts_each N] [--step_milliseconds N] [--cache_dtype D], numbers above 0");
  return options;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

EngineRequest request_of(int64_t client, int64_t prompt, int64_t tokens) {
  EngineRequest request;
  for (int64_t i = 0; i < prompt; ++i) request.prompt.tokens.push_back(5 + (client * 131 + i * 7) % 1000);
  request.config.max_new_tokens = tokens;
  return request;
}

void generate_once(const Model& model, int64_t prompt, int64_t tokens) {
  const EngineRequest request = request_of(0, prompt, tokens);
  for (const bool counts : {false, true}) {
    const double start = now();
    generate(model, {{"input_ids", Tensor::from(request.prompt.tokens, {1, prompt})}}, request.config);
    if (counts) std::cout << fmt::format("generate()  1 x ({} + {})  {:.3f} s\n", prompt, tokens, now() - start);
  }
}

void run(Engine& engine, int64_t clients, int64_t prompt, int64_t tokens) {
  for (const bool counts : {false, true}) {
    for (int64_t client = 0; client < clients; ++client) engine.add(request_of(client, prompt, tokens));
    const size_t programs = cache_statistics().programs.misses;
    const double start = now();
    std::vector<double> steps;
    for (double before = start; engine.step(); before = now()) steps.push_back(now() - before);
    const double seconds = now() - start;
    engine.take();
    std::sort(steps.begin(), steps.end());
    if (counts)
      std::cout << fmt::format(
          "engine      {} x ({} + {})  {:.3f} s, {:.1f} tokens/s; a step: median {:.1f} ms, longest {:.1f} ms\n",
          clients, prompt, tokens, seconds, static_cast<double>(clients * tokens) / seconds,
          steps[steps.size() / 2] * 1e3, steps.back() * 1e3);
    else
      std::cout << fmt::format("            first run {:.3f} s, {} programs compiled\n", seconds,
                               cache_statistics().programs.misses - programs);
  }
}

// Clients that each ask again as soon as they are answered, as those of a server do: what their tokens wait for.
void run_clients(const Model& model, const Options& options, int64_t prompt) {
  Engine engine(model, {.cache_dtype = options.cache_dtype,
                        .step_seconds = static_cast<double>(options.step_milliseconds) * 1e-3,
                        .max_model_length = prompt + options.tokens,
                        .prefix_caching = false});
  std::map<uint64_t, double> last;             // when a request got its last token
  std::vector<double> gaps, firsts, steps[2];  // of steps without prompts and with them
  int64_t asked = 0;
  const auto ask = [&] {
    last[engine.add(request_of(asked, prompt, options.tokens))] = -now();
    ++asked;
  };
  const double start = now();
  for (int64_t client = 0; client < options.clients; ++client) ask();
  const size_t programs = cache_statistics().programs.misses;
  while (!last.empty()) {
    const int64_t read = engine.statistics().prompt_tokens;
    const double before = now();
    engine.step();
    const double after = now();
    steps[engine.statistics().prompt_tokens > read].push_back(after - before);
    for (const EngineEvent& event : engine.take()) {
      double& time = last.at(event.request);
      (time < 0 ? firsts : gaps).push_back(after - std::abs(time));
      time = after;
      if (!event.finish) continue;
      last.erase(event.request);
      if (asked < options.clients * options.prompts_each) ask();
    }
  }
  const double seconds = now() - start;
  const auto at = [](std::vector<double>& times, double share) {
    if (times.empty()) return 0.0;
    std::sort(times.begin(), times.end());
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))] * 1e3;
  };
  std::cout << fmt::format(
      "clients     {} x {} x ({} + {})  {:.3f} s, {:.1f} tokens/s read and written, {} programs compiled; first token "
      "{:.0f} ms, between tokens p50 {:.1f}, p95 {:.1f}, p99 {:.1f} ms; {} steps without prompts, median {:.1f} ms, {} "
      "with, median {:.1f}, longest {:.1f} ms\n",
      options.clients, options.prompts_each, prompt, options.tokens, seconds,
      static_cast<double>(asked * (prompt + options.tokens)) / seconds, cache_statistics().programs.misses - programs,
      at(firsts, 0.5), at(gaps, 0.5), at(gaps, 0.95), at(gaps, 0.99), steps[0].size(), at(steps[0], 0.5),
      steps[1].size(), at(steps[1], 0.5), at(steps[1], 1));
}

int bench(int count, char** words) {
  const Options options = parse(count, words);
  const auto model =
      Model::from_pretrained(options.model, {.dtype = options.dtype, .activations = options.activations});
  generate_once(*model, options.prompt, 1);
  generate_once(*model, 1, options.tokens);
  Engine engine(*model, {.cache_dtype = options.cache_dtype,
                         .max_model_length = options.prompt + options.tokens,
                         .prefix_caching = false});
  run(engine, 1, options.prompt, 1);
  run(engine, 1, 1, options.tokens);
  run(engine, options.clients, 1, options.tokens);
  const int64_t shorter = std::min<int64_t>(options.prompt, 64);
  run(engine, options.clients, shorter, options.tokens);
  for (const int64_t milliseconds : {options.step_milliseconds, options.step_milliseconds, int64_t{0}}) {
    Options some = options;
    some.step_milliseconds = milliseconds;
    run_clients(*model, some, shorter);
  }
  return 0;
}

}  // namespace
}  // namespace transom

int main(int count, char** words) {
  try {
    return transom::bench(count, words);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
