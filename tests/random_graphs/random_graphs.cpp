// SPDX-License-Identifier: Apache-2.0
// random_graphs: tries so many random graphs, or until the time is over, and prints what it finds, made small.
//   random_graphs --seed 1 (--seconds 3600 | --count 1000000) [--device cpu] [--all] [--no-shrink]
//   random_graphs --case FILE
// Exit status: 1 if a graph failed.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "random_graphs/comparison.h"
#include "transom/device.h"

namespace {

using namespace transom;
using namespace transom::random_graphs;

char current[64] = "";

void on_crash(int signal) {
  const auto ignored = write(2, current, std::strlen(current));
  static_cast<void>(ignored);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void report(const std::string& name, const GraphCase& graph_case, bool smaller) {
  const auto failure = check_case(graph_case);
  if (!failure) return;
  std::puts(fmt::format("# {}: {}; output {}, element {}: {}", name, failure->what, failure->output, failure->element,
                        failure->text)
                .c_str());
  if (smaller) {
    const GraphCase small = shrink(graph_case, *failure);
    if (const auto again = check_case(small))
      std::puts(fmt::format("# made small: {}; output {}, element {}: {}", again->what, again->output, again->element,
                            again->text)
                    .c_str());
    std::puts(print_case(small).c_str());
  } else {
    std::puts(print_case(graph_case).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  uint64_t seed = 1, most = UINT64_MAX;
  double seconds = 60;
  std::string file, device = "cpu";
  bool smaller = true, all = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* value = i + 1 < count ? words[i + 1] : "";
    if (word == "--seed") seed = std::strtoull(value, nullptr, 10), ++i;
    else if (word == "--seconds") seconds = std::strtod(value, nullptr), ++i;
    else if (word == "--count") most = std::strtoull(value, nullptr, 10), seconds = INFINITY, ++i;
    else if (word == "--case") file = value, ++i;
    else if (word == "--device") device = value, ++i;
    else if (word == "--no-shrink") smaller = false;
    else if (word == "--all") all = true;
    else return std::fprintf(stderr, "random_graphs: unknown argument %s\n", word.c_str()), 2;
  }
  try {
    set_device(device);
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, on_crash);
    if (!file.empty()) {
      const GraphCase graph_case = parse_case(read_file(file));
      report(file, graph_case, smaller);
      return check_case(graph_case) ? 1 : 0;
    }
    const auto begin = std::chrono::steady_clock::now();
    uint64_t tried = 0, failed = 0;
    for (;; ++seed) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      if (passed.count() >= seconds || tried >= most) break;
      std::snprintf(current, sizeof current, "crashed with --seed %llu\n", static_cast<unsigned long long>(seed));
      const GraphCase graph_case = random_case(seed);
      ++tried;
      if (!check_case(graph_case)) continue;
      ++failed;
      report(fmt::format("seed {}", seed), graph_case, smaller);
      if (!all) break;
    }
    std::puts(fmt::format("# {} graphs, {} failed; the next seed is {}", tried, failed, seed).c_str());
    return failed ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_graphs: %s%s\n", current, error.what());
    return 1;
  }
}
