// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/text/text_blocks.h"

#include "base/error.h"
#include "inputs/data/text/masking.h"
#include "work/train/metrics/metrics.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {

std::string read_text_column(const TaskFiles& files, const ScriptArguments& script) {
  const size_t column = text_column(files.any(), script);
  for (const auto* data : {&files.train, &files.validation, &files.test})
    if (*data) {
      const size_t own = text_column(**data, script);
      expect_same_column(files.any(), column, **data, own, "--text_column_name");
      (*data)->with_text(own);
    }
  return what_is_read({column_part("text", files.any(), column)}, files);
}

std::vector<Features> cut_into_blocks(const Dataset& given, size_t column, int64_t block_size,
                                      std::string_view argument,
                                      const std::function<Features(const std::string&)>& encode) {
  constexpr int64_t kRowsAtOnce = 1000;
  const Dataset data = given.with_text(column);
  std::vector<Features> rows;
  for (int64_t begin = 0; begin < data.size(); begin += kRowsAtOnce) {
    const auto tokenised = map_rows(std::min(kRowsAtOnce, data.size() - begin), [&](int64_t i) {
      return encode(text_of(data, begin + i, data.row(begin + i), column));
    });
    const size_t first = rows.size();
    for (const auto& [name, unused] : tokenised[0].sequences) {
      std::vector<std::vector<int64_t>> sequences;
      for (const Features& each : tokenised) sequences.push_back(each.sequences.at(name));
      auto pieces = join_and_cut(sequences, block_size);
      rows.resize(first + pieces.size());
      for (size_t i = 0; i < pieces.size(); ++i) rows[first + i].sequences[name] = std::move(pieces[i]);
    }
  }
  require(!rows.empty(), "{}: expected at least {} ({}) tokens of text; give a smaller one", data.name(), argument,
          block_size);
  return rows;
}

TrainingData first_rows(TrainingData data, std::optional<int64_t> limit) {
  if (!limit || *limit >= data.rows) return data;
  data.rows = *limit;
  if (!data.lengths.empty()) data.lengths.resize(static_cast<size_t>(*limit));
  return data;
}

// A generator for one batch: the seed and the draw, well mixed (the finaliser of splitmix64).
Mt19937 generator_of(int64_t seed, uint64_t draw) {
  uint64_t mixed = static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15u + draw;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return Mt19937((mixed ^ (mixed >> 31)) & 0xFFFFFFFFu);
}

void add_perplexity(Metrics& metrics) {
  for (const auto& [name, value] : Metrics(metrics))
    if (name == "eval_loss") metrics.emplace_back("perplexity", perplexity(value));
}

}  // namespace transom
