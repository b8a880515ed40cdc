// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/ranking/ranking_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "inputs/data/columns.h"
#include "work/train/tasks/sentences/sentence_rows.h"

namespace transom {
namespace {

std::vector<RankingRow> read_lists(const Dataset& data, const RankingLossRecord& loss, std::string* what) {
  std::optional<size_t> label, query, documents;
  for (const char* name : {"label", "labels", "score", "scores"})
    if (!label) label = data.find(name);
  for (size_t i = 0; i < data.columns().size(); ++i) {
    if (label == i) continue;
    (query ? documents : query) = i;
  }
  if (!label || !query || !documents || data.columns().size() != 3)
    fail("{}: {} takes a query, a list of documents and a list labels of as many numbers, found columns {}",
         data.name(), loss.name, fmt::join(column_names(data), ", "));
  std::vector<RankingRow> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Row values = data.row(i);
    RankingRow row{.query = text_of(data, i, values, *query), .documents = {}, .labels = {}};
    if (const auto* list = std::get_if<std::vector<std::string>>(&values[*documents])) row.documents = *list;
    if (row.documents.empty())
      fail("{}: column {}: expected a list of texts, found none", data.where(i), data.columns()[*documents].name);
    if (const auto* numbers = std::get_if<std::vector<double>>(&values[*label]))
      row.labels.assign(numbers->begin(), numbers->end());
    if (const auto* whole = std::get_if<std::vector<int64_t>>(&values[*label]))
      row.labels.assign(whole->begin(), whole->end());
    if (row.labels.size() != row.documents.size())
      fail("{}: column {}: expected {} numbers, one for each document, found {}", data.where(i),
           data.columns()[*label].name, row.documents.size(), row.labels.size());
    rows.push_back(std::move(row));
  }
  *what = fmt::format("query: {}; documents: {}; labels: {}", data.columns()[*query].name,
                      data.columns()[*documents].name, data.columns()[*label].name);
  return rows;
}

RowForm row_form(const RankingLossRecord& loss) {
  RowForm form{.loss = std::string(loss.name), .least_columns = 2, .most_columns = 2};
  switch (loss.form) {
    case RankingForm::kClasses:
      form.labels = SentenceLabels::kClass;
      break;
    case RankingForm::kNegatives:
      form.most_columns = 64;
      break;
    case RankingForm::kMargins:
      form.least_columns = 3, form.most_columns = 64, form.labels = SentenceLabels::kMargins;
      break;
    default:
      form.labels = SentenceLabels::kScore;
  }
  return form;
}

// One pair of texts after the other, each of them once.
class Pairs {
 public:
  int64_t place_of(int64_t query, int64_t row, size_t document) {
    pairs_.push_back({query, row, document});
    return static_cast<int64_t>(pairs_.size()) - 1;
  }
  struct Pair {
    int64_t query, row;
    size_t document;
  };
  const std::vector<Pair>& all() const { return pairs_; }

 private:
  std::vector<Pair> pairs_;
};

// The documents of other rows that the query of row `own` of a batch is compared with: the places of rows and columns.
std::vector<std::pair<size_t, size_t>> negatives_among(size_t rows, size_t columns, size_t own,
                                                       std::optional<int64_t> count, Mt19937& draws) {
  std::vector<std::pair<size_t, size_t>> others;
  for (size_t column = 0; column < columns; ++column)
    for (size_t row = 0; row < rows; ++row)
      if (row != own) others.emplace_back(row, column);
  if (!count || *count >= static_cast<int64_t>(others.size())) return others;
  std::vector<std::pair<size_t, size_t>> drawn;
  const std::vector<int64_t> order = draws.randperm(static_cast<int64_t>(others.size()));
  for (int64_t i = 0; i < *count; ++i) drawn.push_back(others[static_cast<size_t>(order[static_cast<size_t>(i)])]);
  return drawn;
}

}  // namespace

std::vector<RankingRow> read_ranking_rows(const Dataset& data, const RankingLossRecord& loss, std::string* what) {
  if (loss.form == RankingForm::kLists) return read_lists(data, loss, what);
  const SentenceRows read(data, row_form(loss));
  *what = read.reads();
  std::vector<RankingRow> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    SentenceRows::SentenceRow row = read.row(i);
    if (loss.form == RankingForm::kBinary && (row.labels[0] < 0 || row.labels[0] > 1))
      fail("{}: {} takes a number from 0 to 1, found {}", data.where(i), loss.name, row.labels[0]);
    RankingRow& made = rows.emplace_back();
    made.query = std::move(row.texts[0]);
    made.documents.assign(row.texts.begin() + 1, row.texts.end());
    made.labels = std::move(row.labels);
  }
  return rows;
}

TrainingData ranking_data(std::vector<RankingRow> given, const RankingLossRecord& loss,
                          std::optional<int64_t> negatives, int64_t seed, std::shared_ptr<const TextEncoder> encoder) {
  const auto rows = std::make_shared<const std::vector<RankingRow>>(std::move(given));
  const bool among_others = loss.form == RankingForm::kNegatives, lists = loss.form == RankingForm::kLists;
  TrainingData data;
  data.rows = static_cast<int64_t>(rows->size());
  data.batch = [rows, negatives, seed, encoder, among_others, lists](const std::vector<int64_t>& indices) {
    const auto row = [&](int64_t index) -> const RankingRow& { return (*rows)[static_cast<size_t>(index)]; };
    // The same for the same rows, so that a resumed run has the same.
    uint64_t mixed = static_cast<uint64_t>(seed);
    for (const int64_t index : indices) mixed = mixed * 6364136223846793005u + static_cast<uint64_t>(index) + 1;
    Mt19937 draws(mixed >> 16);
    Pairs pairs;
    std::vector<std::vector<int64_t>> places(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      const size_t own = row(indices[i]).documents.size();
      places[i].push_back(pairs.place_of(indices[i], indices[i], 0));
      if (among_others)
        for (const auto& [other, column] : negatives_among(indices.size(), own, i, negatives, draws))
          places[i].push_back(pairs.place_of(indices[i], indices[other], column));
      for (size_t k = 1; k < own; ++k) places[i].push_back(pairs.place_of(indices[i], indices[i], k));
    }
    std::vector<Features> features;
    for (const Pairs::Pair& pair : pairs.all())
      features.push_back(encoder->features(
          encoder->encode(row(pair.query).query, row(pair.row).documents[pair.document],
                          {.truncation = Truncation::kLongestFirst, .max_length = encoder->max_length()})));
    Batch batch = collate(features, encoder->padding());
    size_t most = 0, labels = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      most = std::max(most, places[i].size());
      labels = std::max(labels, row(indices[i]).labels.size());
    }
    const auto count = static_cast<int64_t>(indices.size());
    PaddedRows table{count, static_cast<int64_t>(most), {}};
    FloatRows listed{{count, static_cast<int64_t>(most)}, {}}, wanted{{count, static_cast<int64_t>(labels)}, {}};
    for (size_t i = 0; i < indices.size(); ++i) {
      for (size_t k = 0; k < most; ++k) {
        table.values.push_back(k < places[i].size() ? places[i][k] : 0);
        listed.values.push_back(k < places[i].size() ? 1.0f : 0.0f);
      }
      const std::vector<float>& own = row(indices[i]).labels;
      for (size_t k = 0; k < labels; ++k) wanted.values.push_back(k < own.size() ? own[k] : 0.0f);
    }
    batch.sequences["places"] = std::move(table);
    batch.arrays["listed"] = std::move(listed);
    if (labels > 0) batch.arrays["labels"] = std::move(wanted);
    return batch;
  };
  return data;
}

}  // namespace transom
