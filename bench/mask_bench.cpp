// SPDX-License-Identifier: Apache-2.0
// Schemas with valid and invalid instances, token by token: which are kept, refused or mistaken, and what masks cost.
//   mask_bench FOLDER [--output results.jsonl] [--named] [--only NAME]
// FOLDER has what bench/peers/mask_bench.py prepares: vocabulary.txt, the bytes of each token in hexadecimal digits,
// and cases.jsonl, lines of {"id", "schema", "tests": [{"valid", "tokens"}]}. With --named objects have the properties
// that schemas name, as in a server; without, all that is valid. With --only each test is told.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/constraint.h"
#include "work/generation/constraint/tokens/work_time.h"

namespace transom {
namespace {

constexpr int64_t kSpecialTokens = 256;  // behind the others; the second one ends a text

struct Options {
  std::string folder, output, only;
  bool named = false;
};

Options parse(int count, char** words) {
  Options options;
  bool known = count > 1;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--output" && i + 1 < count) options.output = words[++i];
    else if (word == "--named") options.named = true;
    else if (word == "--only" && i + 1 < count) options.only = words[++i];
    else if (options.folder.empty() && !word.starts_with("--")) options.folder = word;
    else known = false;
  }
  if (!known || options.folder.empty())
    fail(ErrorKind::kUsage, "expected: mask_bench FOLDER [--output FILE] [--named] [--only NAME]");
  return options;
}

std::ifstream open_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail("{}: not found; bench/peers/mask_bench.py prepares it", path);
  return file;
}

std::vector<std::string> read_vocabulary(const std::string& path) {
  std::ifstream file = open_file(path);
  std::vector<std::string> tokens;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  for (std::string line; std::getline(file, line);) {
    std::string& bytes = tokens.emplace_back();
    for (size_t i = 0; i + 1 < line.size(); i += 2)
      bytes += static_cast<char>(digit(line[i]) * 16 + digit(line[i + 1]));
  }
  if (static_cast<int64_t>(tokens.size()) <= kSpecialTokens)
    fail("{}: expected more than {} tokens", path, tokens.size());
  return tokens;
}

// Of the thread's own time, so that other work on the machine does not count.
double microseconds_since(double begin) { return 1e6 * (constraint::thread_seconds() - begin); }

struct Bench {
  std::shared_ptr<const constraint::Vocabulary> vocabulary;
  std::vector<uint32_t> mask;
  int64_t end = 0;
  bool tells = false, named = false;

  bool allows(int64_t token) const { return mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1; }

  bool accepts(const TokenConstraint& first, const Json& tokens, Json& times) {
    const std::unique_ptr<TokenConstraint> state = first.clone();
    std::string text;
    for (const Json& each : tokens) {
      const auto token = each.get<int64_t>();
      const double begin = constraint::thread_seconds();
      state->allowed(mask);
      const double filled = microseconds_since(begin);
      text += vocabulary->trie->bytes_of(token);
      if (!allows(token)) {
        if (tells) std::cout << text << " <- refused\n";
        return false;
      }
      const double chosen = constraint::thread_seconds();
      state->accept(token);
      times.push_back(filled + microseconds_since(chosen));
    }
    state->allowed(mask);
    if (tells) std::cout << text << (allows(end) ? " <- accepted\n" : " <- does not end\n");
    return allows(end);
  }

  Json judge(const Json& given) {
    Json result{{"id", given["id"]}, {"state", "right"}, {"masks_us", Json::array()}};
    const double begin = constraint::thread_seconds();
    std::shared_ptr<const TokenConstraint> first;
    try {
      const auto kind = named ? constraint::Kind::kJsonSchema : constraint::Kind::kWholeJsonSchema;
      first = constraint::make_constraint(vocabulary, kind, given["schema"].dump());
      first->clone()->allowed(mask);
    } catch (const Error& error) {
      result["state"] = "refused", result["why"] = error.what(), result["refused_us"] = microseconds_since(begin);
      return result;
    }
    result["first_us"] = microseconds_since(begin);
    for (size_t i = 0; i < given["tests"].size(); ++i) {
      const bool valid = given["tests"][i]["valid"].get<bool>();
      try {
        const bool accepted = accepts(*first, given["tests"][i]["tokens"], result["masks_us"]);
        if (accepted == valid || result["state"] == "accepts_invalid") continue;
        result["state"] = accepted ? "accepts_invalid" : "rejects_valid", result["why"] = fmt::format("test {}", i);
        if (tells) std::cout << "test " << i << ": " << result["state"] << "\n";
      } catch (const Error& error) {
        result["state"] = "failed", result["why"] = error.what();
        return result;
      }
    }
    return result;
  }
};

int run(const Options& options) {
  const std::vector<std::string> tokens = read_vocabulary(options.folder + "/vocabulary.txt");
  Bench bench;
  bench.end = static_cast<int64_t>(tokens.size()) - kSpecialTokens + 1;
  bench.vocabulary = std::make_shared<constraint::Vocabulary>(tokens, std::vector<int64_t>{bench.end});
  bench.mask.resize((tokens.size() + 31) / 32);
  bench.tells = !options.only.empty(), bench.named = options.named;
  std::ifstream cases = open_file(options.folder + "/cases.jsonl");
  std::ofstream output(options.output.empty() ? "/dev/null" : options.output);
  std::map<std::string, int64_t> states;
  for (std::string line; std::getline(cases, line);) {
    if (bench.tells && line.substr(0, 200).find(options.only) == line.npos) continue;
    const Json result = bench.judge(Json::parse(line));
    ++states[result["state"].get<std::string>()];
    output << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    if (bench.tells) std::cout << result["id"] << ": " << result["state"] << " " << result.value("why", "") << '\n';
  }
  for (const auto& [state, count] : states) std::cout << state << ": " << count << '\n';
  return 0;
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
