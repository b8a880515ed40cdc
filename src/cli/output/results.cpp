// SPDX-License-Identifier: Apache-2.0
#include "cli/output/results.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

void print(const std::string& line) { std::puts(line.c_str()); }

bool has(const Json& result, std::initializer_list<const char*> keys) {
  return result.is_object() &&
         std::all_of(keys.begin(), keys.end(), [&](const char* key) { return result.contains(key); });
}

std::string text(const Json& result, const char* key) {
  return result[key].is_string() ? result[key].get<std::string>() : dump_json(result[key]);
}

std::string score(const Json& result) {
  return result["score"].is_number() ? fmt::format("{:.4f}", result["score"].get<double>()) : "-";
}

// What a task wrote: {"generated_text": "..."} and its like.
const Json* written_text(const Json& result) {
  if (!result.is_object() || result.empty() || result.size() > 2) return nullptr;
  const std::string& name = result.begin().key();
  return name == "text" || name.ends_with("_text") ? &result.begin().value() : nullptr;
}

// Nested lists of numbers: their extents and the first of them.
void show_numbers(const Json& result, const std::string& indent) {
  constexpr size_t kShown = 6;
  std::vector<size_t> extents;
  const Json* row = &result;
  for (; row->is_array() && !row->empty(); row = &row->front()) {
    extents.push_back(row->size());
    if (row->front().is_number()) break;
  }
  std::string line;
  for (size_t i = 0; i < std::min(kShown, row->size()); ++i)
    line += fmt::format("{}{:.4f}", i > 0 ? "  " : "", (*row)[i].get<double>());
  const bool more = row->size() > kShown || extents.size() > 1;
  print(fmt::format("{}[{}]  {}{}", indent, fmt::join(extents, " x "), line, more ? "  ...  (--json prints all)" : ""));
}

bool is_numbers(const Json& result) {
  const Json* first = &result;
  while (first->is_array() && !first->empty()) first = &first->front();
  return result.is_array() && first->is_number();
}

std::string seconds(const Json& time) {
  return time.is_number() ? fmt::format("{:>8.2f}", time.get<double>()) : "       -";
}

// The messages of a chat end with the answer, which is what is shown.
void show_written(const Json& written, const std::string& indent) {
  if (written.is_string()) print(indent + written.get<std::string>());
  else if (written.is_array() && !written.empty() && has(written.back(), {"content"}))
    print(indent + text(written.back(), "content"));
  else print(indent + dump_json(written));
}

}  // namespace

void show_result(const Json& result, const std::string& indent) {
  if (result.is_array() && !result.empty() && !is_numbers(result)) {
    for (const Json& item : result) show_result(item, indent);
  } else if (has(result, {"label", "score"})) {
    print(fmt::format("{}{:<24} {}", indent, text(result, "label"), score(result)));
  } else if (has(result, {"answer", "score"})) {
    print(fmt::format("{}{:<40} {}", indent, text(result, "answer"), score(result)));
  } else if (has(result, {"sequence", "token_str", "score"})) {
    print(fmt::format("{}{:<16} {}  {}", indent, text(result, "token_str"), score(result), text(result, "sequence")));
  } else if (has(result, {"word", "score"})) {
    print(fmt::format("{}{:<24} {:<12} {}  {}-{}", indent, text(result, "word"),
                      text(result, result.contains("entity") ? "entity" : "entity_group"), score(result),
                      dump_json(result["start"]), dump_json(result["end"])));
  } else if (has(result, {"sequence", "labels", "scores"})) {
    for (size_t i = 0; i < result["labels"].size(); ++i)
      print(fmt::format("{}{:<24} {:.4f}", indent, result["labels"][i].get<std::string>(),
                        result["scores"][i].get<double>()));
  } else if (const Json* written = written_text(result)) {
    show_written(*written, indent);
    if (!result.contains("chunks")) return;
    for (const Json& chunk : result["chunks"]) {
      const bool timed = chunk.contains("timestamp") && chunk["timestamp"].is_array() && chunk["timestamp"].size() == 2;
      print(fmt::format(
          "{}  {}{}", indent,
          timed ? fmt::format("{} -{}  ", seconds(chunk["timestamp"][0]), seconds(chunk["timestamp"][1])) : "",
          text(chunk, "text")));
    }
  } else if (is_numbers(result)) {
    show_numbers(result, indent);
  } else if (!result.is_array()) {
    print(indent + dump_json(result));
  } else print(indent + "nothing found");
}

void show_named_result(const std::string& input, const Json& result) {
  print(input);
  show_result(result, "  ");
}

void show_ranking(const Json& sentences, const Json& scores) {
  std::vector<std::pair<double, std::string>> ranking;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool placed = scores[i].is_object();
    const Json &score = placed ? scores[i]["score"] : scores[i],
               &sentence = sentences[placed ? scores[i]["corpus_id"].get<size_t>() : i];
    ranking.emplace_back(score.get<double>(), sentence.get<std::string>());
  }
  std::stable_sort(ranking.begin(), ranking.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [score, sentence] : ranking) print(fmt::format("{:.4f}  {}", score, sentence));
}

}  // namespace transom
