// SPDX-License-Identifier: Apache-2.0
// A program that reads completions as lines of JSON and writes a reward for each.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "runtime/distributed/spawn/child.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

constexpr std::chrono::minutes kLongestCommand{10};
constexpr size_t kShownOfErrors = 400;  // bytes

// The lines that the program reads, removed at the end.
class InputLines {
 public:
  explicit InputLines(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "transom-rewards-XXXXXX").string();
    const int file = ::mkstemp(path_.data());
    require(file >= 0, "--reward_funcs: command: no file can be made in {}",
            std::filesystem::temp_directory_path().string());
    ::close(file);
    write_file(path_, text);
  }
  ~InputLines() { ::unlink(path_.c_str()); }
  InputLines(const InputLines&) = delete;
  InputLines& operator=(const InputLines&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string lines_of(const RewardRequest& request) {
  std::string lines;
  for (size_t i = 0; i < request.completions.size(); ++i) {
    Json row = Json::object();
    for (const auto& [name, values] : request.columns) row[name] = parse_json(values.at(i), name);
    row["prompt"] = request.is_chat ? parse_json(request.prompts[i], "a prompt") : Json(request.prompts[i]);
    row["completion"] = request.completions[i];
    row["completion_ids"] = request.completion_ids[i];
    lines += dump_json(row) + "\n";
  }
  return lines;
}

std::optional<double> reward_of_line(const std::string& line, size_t number) {
  const std::string where = fmt::format("--reward_funcs: command: line {} of its output", number);
  Json value = parse_json(line, where);
  if (value.is_object() && value.contains("reward")) value = Json(value["reward"]);
  if (value.is_null()) return std::nullopt;
  require(value.is_number() && std::isfinite(value.get<double>()),
          "{}: expected a number, null, or an object with reward, found {}", where, quoted(line));
  return value.get<double>();
}

struct Output {
  std::vector<std::string> lines;
  std::string errors;
  int status = 0;
};

Output run_command(const std::string& command, const std::string& input) {
  Output output;
  const InputLines file(input);
  Child child({.label = "--reward_funcs: command",
               .words = {"sh", "-c", "exec 0< \"$1\"; eval \"$2\"", "sh", file.path(), command},
               .variables = {}});
  const TakeLine take = [&](const ChildOptions&, bool is_error, std::string_view line) {
    if (!is_error) output.lines.emplace_back(line);
    else if (output.errors.size() < kShownOfErrors) output.errors += std::string(line.substr(0, kShownOfErrors)) + " ";
  };
  const auto begin = std::chrono::steady_clock::now();
  bool running = true;
  while (running) {
    running = child.is_running();
    pollfd files[2] = {{child.out(), POLLIN, 0}, {child.error(), POLLIN, 0}};
    if (running) ::poll(files, 2, 50);
    child.read(take);
    if (std::chrono::steady_clock::now() - begin > kLongestCommand)
      fail("--reward_funcs: command: {} has not ended after {} minutes", quoted(command), kLongestCommand.count());
  }
  child.finish(take);
  output.status = child.status();
  return output;
}

}  // namespace

Reward command_reward(const std::string& command) {
  return {
      "command", [command](const RewardRequest& request) {
        const Output output = run_command(command, lines_of(request));
        if (output.status != 0)
          fail("--reward_funcs: command: {} ended with {}{}{}", quoted(command),
               output.status > 0 ? fmt::format("status {}", output.status) : fmt::format("signal {}", -output.status),
               output.errors.empty() ? "" : ": ", output.errors);
        require(output.lines.size() == request.completions.size(),
                "--reward_funcs: command: {}: expected {} lines, a reward for each completion, found {}",
                quoted(command), request.completions.size(), output.lines.size());
        std::vector<std::optional<double>> rewards;
        for (size_t i = 0; i < output.lines.size(); ++i) rewards.push_back(reward_of_line(output.lines[i], i + 1));
        return rewards;
      }};
}

}  // namespace transom
