// SPDX-License-Identifier: Apache-2.0
// Pipelines with options and results as structs: ask_pipelines CLASSIFIER TEXT...
#include <iostream>

#include "transom/transom.h"

using namespace transom;

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: example_ask_pipelines CLASSIFIER TEXT...\n";
    return 2;
  }
  set_log_sink([](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) std::cerr << "warning: " << text << '\n';
  });
  try {
    const TextClassificationPipeline classify(argv[1], {.dtype = "auto", .batch_size = 8});
    const std::vector<std::string> texts(argv + 2, argv + argc);
    for (const std::vector<ClassScore>& classes : classify.run_all(texts, {.top_k = 2}))
      for (const ClassScore& each : classes) std::cout << each.label << "  " << each.score << '\n';
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOutOfMemory) std::cerr << "a smaller batch may fit: ";
    std::cerr << error.what() << '\n';
    return 1;
  }
}
