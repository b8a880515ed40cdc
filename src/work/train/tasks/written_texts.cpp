// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/written_texts.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "inputs/text/unicode/unicode.h"
#include "transom/distributed.h"

namespace transom {
namespace {

constexpr size_t kMostBytes = 400;

// In quotes, so that a text's own lines and marks stay one line.
std::string quoted_text(const std::string& text) { return dump_json(Json(first_bytes(text, kMostBytes))); }

template <typename Number>
std::vector<std::string> texts_of_ids(const std::vector<Number>& ids, int64_t rows, const TextOfTokens& text) {
  const size_t width = ids.size() / static_cast<size_t>(std::max<int64_t>(rows, 1));
  std::vector<std::string> texts;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    TokenIds tokens;
    for (size_t i = row * width; i < (row + 1) * width; ++i)
      if (ids[i] >= 0) tokens.push_back(static_cast<int64_t>(ids[i]));
    texts.push_back(text(tokens));
  }
  return texts;
}

}  // namespace

NamedTensors texts_that_are_written(const Model& model, const GenerationConfig& config, int64_t padding,
                                    const NamedTensors& inputs) {
  NamedTensors given;
  for (const char* name : {"input_ids", "attention_mask"})
    if (inputs.find(name).defined()) given.set(name, inputs.at(name));
  return written_tokens(generate(model, given, config).sequences, padding);
}

NamedTensors written_tokens(const std::vector<TokenIds>& rows, int64_t fill) {
  size_t longest = 1;
  for (const TokenIds& row : rows) longest = std::max(longest, row.size());
  std::vector<int64_t> ids;
  for (const TokenIds& row : rows) {
    ids.insert(ids.end(), row.begin(), row.end());
    ids.insert(ids.end(), longest - row.size(), fill);
  }
  return {{kWrittenTexts, Tensor::from(ids, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)})}};
}

std::vector<std::string> texts_of_rows(const std::vector<float>& ids, int64_t rows, const TextOfTokens& text) {
  return texts_of_ids(ids, rows, text);
}
std::vector<std::string> texts_of_rows(const std::vector<int64_t>& ids, int64_t rows, const TextOfTokens& text) {
  return texts_of_ids(ids, rows, text);
}

std::string first_bytes(const std::string& text, size_t most_bytes) {
  std::string whole = text::well_formed(text);
  if (whole.size() <= most_bytes) return whole;
  return whole.substr(0, text::previous_boundary(whole, most_bytes + 1)) + " ...";
}

int64_t samples_to_show(const ScriptArguments& script, int64_t otherwise) {
  return script.json ? 0 : script.num_samples_to_print.value_or(otherwise);
}

void show_samples(int64_t count, const std::vector<std::string>& wanted, const std::vector<std::string>& written) {
  const size_t shown = std::min({static_cast<size_t>(std::max<int64_t>(count, 0)), wanted.size(), written.size()});
  if (shown == 0 || process_rank() > 0) return;
  std::string lines = fmt::format("{} of {} texts of this evaluation:", shown, written.size());
  for (size_t i = 0; i < shown; ++i)
    lines += fmt::format("\n  wanted  {}\n  written {}", quoted_text(wanted[i]), quoted_text(written[i]));
  log(LogLevel::kInfo, lines);
}

}  // namespace transom
