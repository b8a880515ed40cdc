// SPDX-License-Identifier: Apache-2.0
// A server's day in minutes: threads ask pipelines of their own and shared ones for texts of random lengths. Answers
// are compared with those of one thread; the memory of the process should become flat.
//   many_requests CLASSIFIER MASKED [--calls 100000] [--threads 4] [--words 40] [--mode lazy|compile|graph] [--batches]
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/json/json.h"
#include "transom/caches.h"
#include "transom/device.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

struct Options {
  std::string models[2];
  int64_t calls = 100'000, threads = 4, words = 40;
  Mode mode = Mode::kLazy;
  bool batches = false;  // one request in four is a batch of 2 to 8 texts
};

Options parse(int count, char** words) {
  Options options;
  int named = 0;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto number = [&] { return i + 1 < count ? std::atoll(words[++i]) : 0; };
    if (word == "--calls") options.calls = number();
    else if (word == "--threads") options.threads = number();
    else if (word == "--words") options.words = number();
    else if (word == "--batches") options.batches = true;
    else if (word == "--mode" && i + 1 < count) {
      const std::string_view mode = words[++i];
      options.mode = mode == "graph" ? Mode::kGraph : mode == "compile" ? Mode::kCompile : Mode::kLazy;
    } else if (named < 2) options.models[named++] = word;
  }
  if (named < 2 || options.calls < 1 || options.threads < 1 || options.words < 1)
    fail(ErrorKind::kUsage,
         "expected: many_requests CLASSIFIER MASKED [--calls N] [--threads N] [--words N] [--mode M]");
  return options;
}

std::string text_of(int64_t length, bool masked) {
  static constexpr const char* kWords[] = {"the", "film", "was", "not", "a", "great", "plot", "and", "I", "liked"};
  std::string text = masked ? "[MASK]" : "so";
  for (int64_t i = 0; i < length; ++i) text += std::string(" ") + kWords[(i * 3 + length) % 10];
  return text;
}

// Equal but for the last digits, which padding may change in a batch.
bool near(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return std::abs(a.get<double>() - b.get<double>()) < 1e-4;
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (!a.is_structured()) return a == b;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y)
    if (!near(*x, *y)) return false;
  return true;
}

double resident_mebibytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

int run(const Options& options) {
  set_mode(options.mode);
  const std::string tasks[] = {"text-classification", "fill-mask"};
  std::shared_ptr<const Pipeline> shared[2];
  std::vector<Json> expected[2];
  for (size_t task = 0; task < 2; ++task) {
    shared[task] = make_pipeline(tasks[task], options.models[task]);
    for (int64_t length = 0; length < options.words; ++length)
      expected[task].push_back(run_pipeline(*shared[task], Json(text_of(length, task == 1)), Json::object()));
  }
  std::atomic<int64_t> next{0}, wrong{0}, running{options.threads};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < options.threads; ++t)
    threads.emplace_back([&, t] {
      try {
        const std::shared_ptr<const Pipeline> own[] = {make_pipeline(tasks[0], options.models[0]),
                                                       make_pipeline(tasks[1], options.models[1])};
        std::mt19937 random(static_cast<uint32_t>(t));
        while (next++ < options.calls) {
          const size_t task = random() % 2;
          const Pipeline& pipeline = random() % 2 ? *own[task] : *shared[task];
          const size_t texts = options.batches && random() % 4 == 0 ? 2 + random() % 7 : 1;
          std::vector<Json> inputs;
          std::vector<size_t> lengths;
          for (size_t i = 0; i < texts; ++i) {
            lengths.push_back(random() % static_cast<uint32_t>(options.words));
            inputs.emplace_back(text_of(static_cast<int64_t>(lengths.back()), task == 1));
          }
          if (texts == 1) {
            wrong += run_pipeline(pipeline, inputs[0], Json::object()) != expected[task][lengths[0]];
            continue;
          }
          const std::vector<Json> got = run_pipeline(pipeline, inputs, {{"batch_size", texts}});
          for (size_t i = 0; i < texts; ++i) {
            Json one = expected[task][lengths[i]];
            if (one.is_array() && one.size() == 1 && !got[i].is_array()) one = one[0];
            wrong += !near(got[i], one);
          }
        }
      } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        ++wrong;
      }
      --running;
    });
  std::cout << "   calls  seconds  wrong  resident MiB   programs (MiB, evicted)   traces (MiB, evicted)\n";
  for (int64_t shown = 0; shown <= 20; ++shown) {
    while (next < options.calls * shown / 20 && running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (shown == 20)
      for (std::thread& thread : threads) thread.join();
    const CacheStatistics caches = cache_statistics();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto use = [](const CacheUse& cache) {
      return fmt::format("{} ({}, {})", cache.entries, cache.bytes >> 20, cache.evictions);
    };
    std::cout << fmt::format("{:>8} {:>8.1f} {:>6} {:>13.1f}   {:<25} {}\n", std::min<int64_t>(next, options.calls),
                             seconds, wrong.load(), resident_mebibytes(), use(caches.programs), use(caches.traces))
              << std::flush;
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace transom

int main(int count, char** words) {
  try {
    return transom::run(transom::parse(count, words));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
