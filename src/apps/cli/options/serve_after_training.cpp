// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/serve_after_training.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/processes/process.h"
#include "base/terminal/command_line.h"

namespace transom {
namespace {

constexpr const char* kServerFlags[] = {"--host", "--port", "--served_model_name"};

void check_port(const std::string& word) {
  int port = -1;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), port);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size() || port < 0 || port > 65535)
    fail(ErrorKind::kUsage, "--port: expected a number from 0 to 65535, found {}", quoted(word));
}

}  // namespace

ServeAfterTraining take_serve_flags(std::vector<std::string>& words) {
  ServeAfterTraining serve;
  std::vector<std::string> left;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(0, equals);
    if (words[i] == "--serve") {
      serve.wanted = true;
    } else if (std::find(std::begin(kServerFlags), std::end(kServerFlags), flag) != std::end(kServerFlags)) {
      if (equals == flag.npos && i + 1 >= words.size()) fail(ErrorKind::kUsage, "{}: expected a value", flag);
      const std::string value = equals == flag.npos ? words[++i] : words[i].substr(equals + 1);
      if (flag == "--port") check_port(value);
      serve.words.insert(serve.words.end(), {flag, value});
    } else {
      left.push_back(words[i]);
    }
  }
  if (!serve.wanted && !serve.words.empty())
    fail(ErrorKind::kUsage, "{}: expected --serve, which answers from the trained model", serve.words[0]);
  words = std::move(left);
  return serve;
}

std::string describe_serve_flags() {
  return "\nServing:\n" +
         describe_option({.name = "--serve",
                          .value = Option::Setter(),
                          .help = "answer from the trained model when it is there, as transom serve OUTPUT_DIR does"}) +
         describe_option({.name = "--port", .value = Option::Setter(), .help = "port to listen on", .type = "NUMBER"}) +
         describe_option(
             {.name = "--host", .value = Option::Setter(), .help = "address to listen on", .type = "TEXT"}) +
         describe_option({.name = "--served_model_name",
                          .value = Option::Setter(),
                          .help = "name that clients use",
                          .type = "TEXT"});
}

void expect_servable(const ServeAfterTraining& serve, const TrainArguments& arguments) {
  if (!serve.wanted) return;
  if (arguments.script.overfit_batch)
    fail(ErrorKind::kUsage, "--serve: --overfit_batch leaves no model behind; leave one of them out");
  if (arguments.training.output_dir.empty())
    fail(ErrorKind::kUsage, "--serve: expected --output_dir, where the trained model is");
}

void serve_trained(const ServeAfterTraining& serve, const TrainArguments& arguments) {
  std::vector<std::string> words{own_program(), "serve", arguments.training.output_dir};
  words.insert(words.end(), serve.words.begin(), serve.words.end());
  if (arguments.script.device) words.insert(words.end(), {"--device", *arguments.script.device});
  else if (arguments.training.use_cpu) words.insert(words.end(), {"--device", "cpu"});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(pointers[0], pointers.data());
  fail("{}: {}; the trained model is in {}: transom serve {}", words[0], std::strerror(errno), words[2], words[2]);
}

}  // namespace transom
