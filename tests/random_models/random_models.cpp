// SPDX-License-Identifier: Apache-2.0
// random_models: runs the ONNX files of make/ in all modes, and prints what differs.
//   random_models FILE... [--device cpu] [--only CASE] [--write FOLDER]
// --write: the ONNX file of each case that is shown, as CASE.onnx. Exit status: 1 if a case differs.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/error.h"
#include "random_models/model_case.h"
#include "transom/device.h"

namespace {

using namespace transom;
using namespace transom::random_models;

char current[256] = "";

void on_crash(int signal) {
  const auto ignored = write(1, current, std::strlen(current));
  static_cast<void>(ignored);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> files;
  std::string device = "cpu", only, folder;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* value = i + 1 < count ? words[i + 1] : "";
    if (word == "--device") device = value, ++i;
    else if (word == "--only") only = value, ++i;
    else if (word == "--write") folder = value, ++i;
    else files.push_back(word);
  }
  try {
    set_device(device);
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, on_crash);
    uint64_t tried = 0, failed = 0, refused = 0;
    for (const std::string& file : files)
      for (const ModelCase& model_case : read_cases(file)) {
        if (!only.empty() && model_case.name != only) continue;
        std::snprintf(current, sizeof current, "crashed: %s, case %s\n", file.c_str(), model_case.name.c_str());
        const Verdict verdict = check_case(model_case);
        ++tried;
        failed += !verdict.refused && !verdict.difference.empty();
        refused += verdict.refused;
        if (verdict.difference.empty() && only.empty()) continue;
        std::puts(fmt::format("{} {}: {}", verdict.refused ? "refused" : "differs", model_case.name, verdict.difference)
                      .c_str());
        std::fflush(stdout);
        if (folder.empty()) continue;
        AtomicFile written(fs::path(folder) / (model_case.name + ".onnx"));
        written.write(*model_case.model);
        written.commit();
      }
    std::puts(fmt::format("# {} models, {} differ, {} refused", tried, failed, refused).c_str());
    return failed ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_models: %s%s\n", current, error.what());
    return 1;
  }
}
