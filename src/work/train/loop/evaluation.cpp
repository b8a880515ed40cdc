// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/threads/prefetcher.h"
#include "inputs/data/text/padding.h"
#include "runtime/device/static_shapes.h"
#include "runtime/distributed/process_group.h"
#include "transom/ops.h"
#include "work/train/log/batch_measures.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/loop/samplers.h"
#include "work/train/step/objective.h"

namespace transom {
namespace {

// Rows of a tensor of one batch.
struct Part {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// What the model gave for a batch.
struct EvaluatedBatch {
  int64_t rows = 0;
  std::optional<float> loss;
  std::vector<Part> outputs;
  std::optional<Part> token_labels;
  std::vector<int64_t> labels;
  std::vector<float> label_values;
  std::vector<float> sums;  // see BatchMeasures
};

// The first `rows` of the `all` rows that the tensor has parts of.
Part part_of(const std::string& name, const Tensor& tensor, int64_t rows, int64_t all) {
  Part part{name, tensor.shape(), cast(tensor, DType::kFloat32).to_vector<float>()};
  if (rows == all || tensor.dim(0) % all != 0) return part;
  part.shape[0] = tensor.dim(0) / all * rows;
  part.values.resize(static_cast<size_t>(elements(part.shape)));
  return part;
}

// Joins rows of batches whose second axis may differ in length.
Predictions::Array join(const std::string& name, const std::vector<const Part*>& parts) {
  Shape shape = parts[0]->shape;
  shape[0] = 0;
  for (const Part* part : parts) {
    if (part->shape.size() != shape.size())
      fail("evaluation: '{}' is {} in one batch and {} in another", name, to_string(parts[0]->shape),
           to_string(part->shape));
    shape[0] += part->shape[0];
    if (shape.size() > 1) shape[1] = std::max(shape[1], part->shape[1]);
  }
  Predictions::Array result{name, shape, {}};
  for (const Part* part : parts) {
    const int64_t inner = part->shape.size() > 2 ? elements(Shape(part->shape.begin() + 2, part->shape.end())) : 1;
    const int64_t width = (part->shape.size() > 1 ? part->shape[1] : 1) * inner,
                  full = (shape.size() > 1 ? shape[1] : 1) * inner;
    for (int64_t row = 0; row < part->shape[0]; ++row) {
      result.values.insert(result.values.end(), part->values.begin() + row * width,
                           part->values.begin() + (row + 1) * width);
      result.values.insert(result.values.end(), static_cast<size_t>(full - width), static_cast<float>(kIgnoredLabel));
    }
  }
  return result;
}

// ---- between processes

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <typename T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::string text_of(const Part& part) { return joined_texts({part.name, bytes_of(part.shape), bytes_of(part.values)}); }

std::string text_of(const EvaluatedBatch& batch) {
  std::vector<std::string> fields{bytes_of(std::vector<int64_t>{batch.rows}),
                                  bytes_of(batch.loss ? std::vector<float>{*batch.loss} : std::vector<float>{}),
                                  batch.token_labels ? text_of(*batch.token_labels) : "",
                                  bytes_of(batch.labels),
                                  bytes_of(batch.label_values),
                                  bytes_of(batch.sums)};
  for (const Part& part : batch.outputs) fields.push_back(text_of(part));
  return joined_texts(fields);
}

std::vector<std::string> fields_of(const std::string& text, size_t least) {
  auto fields = split_texts(text);
  if (!fields || fields->size() < least) fail(ErrorKind::kDevice, "evaluation: another process sent no batch");
  return std::move(*fields);
}

Part read_part(const std::string& text) {
  const std::vector<std::string> fields = fields_of(text, 3);
  Part part{fields[0], values_of<int64_t>(fields[1]), values_of<float>(fields[2])};
  if (part.shape.empty() || elements(part.shape) != static_cast<int64_t>(part.values.size()))
    fail(ErrorKind::kDevice, "evaluation: another process sent {} values for {}", part.values.size(),
         to_string(part.shape));
  return part;
}

EvaluatedBatch read_batch(const std::string& text) {
  const std::vector<std::string> fields = fields_of(text, 6);
  EvaluatedBatch batch;
  const auto rows = values_of<int64_t>(fields[0]);
  const auto loss = values_of<float>(fields[1]);
  batch.rows = rows.empty() ? 0 : rows[0];
  if (!loss.empty()) batch.loss = loss[0];
  if (!fields[2].empty()) batch.token_labels = read_part(fields[2]);
  batch.labels = values_of<int64_t>(fields[3]);
  batch.label_values = values_of<float>(fields[4]);
  batch.sums = values_of<float>(fields[5]);
  for (size_t i = 6; i < fields.size(); ++i) batch.outputs.push_back(read_part(fields[i]));
  return batch;
}

// Each process's batches come in turn, as the rows were dealt; those that only repeat rows are left out. What measures
// add up of one round stands in its first batch.
std::vector<EvaluatedBatch> gathered(ProcessGroup& group, const std::vector<EvaluatedBatch>& mine) {
  std::vector<std::string> texts;
  for (const EvaluatedBatch& batch : mine) texts.push_back(text_of(batch));
  std::vector<std::vector<std::string>> of_ranks;
  for (const std::string& text : group.all_gather(joined_texts(texts)))
    of_ranks.push_back(fields_of(text, mine.size()));
  std::vector<EvaluatedBatch> all;
  for (size_t round = 0; round < mine.size(); ++round) {
    const size_t first = all.size();
    for (const auto& texts_of_rank : of_ranks) {
      EvaluatedBatch batch = read_batch(texts_of_rank[round]);
      if (batch.rows == 0) continue;
      if (all.size() > first) {
        std::vector<float>& sums = all[first].sums;
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += batch.sums.at(i);
        batch.sums.clear();
      }
      all.push_back(std::move(batch));
    }
  }
  return all;
}

// The first `rows` of the batch count; the others fill it up.
EvaluatedBatch evaluate_batch(TrainStep& step, const Batch& batch, int64_t number, int64_t rows, int64_t all,
                              const OutputFilter& keep, const OutputFilter& predict, BatchPadding padding) {
  // Labels of whole rows go with outputs of whole rows; others may have a value for each place.
  std::optional<Batch> wide;
  if (!batch.labels.empty() || !batch.label_values.empty()) wide = with_few_lengths(batch, padding);
  NamedTensors inputs = to_inputs(wide ? *wide : batch, step.model(), padding);
  {
    const bool whole = step.objective().asks_whole_weights(0, 0);
    const WholeValues values(whole ? step.sharding() : nullptr, step.model(), nullptr, /*everywhere=*/true);
    step.objective().complete_evaluation(step.model(), inputs, number);
  }
  NamedTensors given;
  Tensor loss;
  const BatchMeasures* measures = step.objective().measures();
  Tensor sums;
  if (step.objective().has_loss(inputs)) {
    loss = step.evaluation_loss(inputs, &given);
    if (measures) sums = measures->sums(inputs, given);
  } else if (!predict) {
    given = step.forward(inputs);
  }
  if (predict) given = predict(inputs);
  else if (keep) given = keep(given);
  std::vector<Tensor> wanted;
  if (loss.defined()) wanted.push_back(loss);
  if (sums.defined()) wanted.push_back(sums);
  for (const auto& [name, tensor] : given.items()) wanted.push_back(tensor);
  step.compute(wanted);
  EvaluatedBatch result{.rows = rows};
  if (loss.defined()) result.loss = loss.item<float>();
  if (sums.defined()) result.sums = sums.to_vector<float>();
  for (const auto& [name, tensor] : given.items())
    if (name != "loss" && tensor.rank() > 0) result.outputs.push_back(part_of(name, tensor, rows, all));
  if (batch.sequences.contains("labels")) result.token_labels = part_of("labels", inputs.at("labels"), rows, all);
  const auto first = [&](const auto& values) {
    return std::vector(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / all * rows);
  };
  result.labels = first(batch.labels);
  result.label_values = first(batch.label_values);
  return result;
}

// Values of rows that came in `order`, in that of the data.
template <typename T>
void put_in_order(std::vector<T>& values, const std::vector<size_t>& places) {
  if (places.empty() || values.empty()) return;
  const size_t width = values.size() / places.size();
  std::vector<T> sorted;
  for (const size_t place : places)
    sorted.insert(sorted.end(), values.begin() + static_cast<std::ptrdiff_t>(place * width),
                  values.begin() + static_cast<std::ptrdiff_t>((place + 1) * width));
  values = std::move(sorted);
}

void put_in_order(Predictions& predictions, const Order& order) {
  std::vector<size_t> places(static_cast<size_t>(predictions.rows));
  std::iota(places.begin(), places.end(), size_t{0});
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return order[a] < order[b]; });
  for (Predictions::Array& array : predictions.outputs) put_in_order(array.values, places);
  put_in_order(predictions.labels, places);
  put_in_order(predictions.label_values, places);
}

// The mean of the losses of batches; of those that are numbers, where there are any and others are skipped.
class MeanLoss {
 public:
  explicit MeanLoss(bool skips_unfinite) : skips_unfinite_(skips_unfinite) {}
  void add(double loss, int64_t weight) {
    const bool counts = !skips_unfinite_ || std::isfinite(loss);
    any_ = true;
    if (!counts) return;
    sum_ += loss * static_cast<double>(weight);
    weights_ += weight;
  }
  std::optional<double> value() const {
    if (!any_) return std::nullopt;
    return sum_ / static_cast<double>(weights_);  // no number where all were none
  }

 private:
  bool skips_unfinite_, any_ = false;
  double sum_ = 0;
  int64_t weights_ = 0;
};

}  // namespace

Predictions evaluate_model(TrainStep& step, const TrainingData& data, const EvaluationBatches& how,
                           const OutputFilter& keep, const OutputFilter& predict) {
  const NoGradient evaluation_only;
  const int64_t batch_size = how.size * step.devices_of_batch();
  const bool grouped = how.grouping_seed && static_cast<int64_t>(data.lengths.size()) == data.rows;
  Order order = sequential_order(data.rows);
  if (grouped) {
    Mt19937 generator(static_cast<uint64_t>(*how.grouping_seed));
    order = length_grouped_order(data.lengths, batch_size, generator);
  }
  ProcessGroup* group = step.sharding() ? nullptr : process_group();
  const int64_t ranks = step.batch_ranks(), rank = step.batch_rank();
  if (group) step.share_buffers();
  const Batches mine = shard(batches_of(order, batch_size, how.drop_last), batch_size, ranks, rank, how.drop_last);
  // A batch's place among those of all processes.
  const auto number_of = [&](int64_t round) { return round * ranks + rank; };
  Prefetcher<Batch> rows(static_cast<int64_t>(mine.size()), [&](int64_t round) {
    Batch batch = data.batch(mine[static_cast<size_t>(round)]);
    if (data.augment) data.augment(batch, TrainingData::kEvaluationDraw + static_cast<uint64_t>(number_of(round)));
    return batch;
  });
  std::vector<EvaluatedBatch> batches;
  for (int64_t round = 0; rows.left() > 0; ++round) {
    int64_t all = static_cast<int64_t>(mine[static_cast<size_t>(round)].size());
    Batch batch = rows.next();
    const bool fills_up = all < batch_size && data.rows > batch_size && step.objective().rows_stand_alone();
    if (fills_up && wants_static_shapes() && fill_up(batch, batch_size)) all = batch_size;
    const int64_t counted = std::clamp<int64_t>(data.rows - number_of(round) * batch_size, 0, all);
    batches.push_back(evaluate_batch(step, batch, round, counted, all, keep, predict, how.padding));
  }
  if (group) batches = gathered(*group, batches);

  Predictions result;
  std::vector<std::pair<std::string, std::vector<const Part*>>> outputs;
  std::vector<const Part*> token_labels;
  MeanLoss loss(how.skips_unfinite);
  MeasureMeans measures;
  for (const EvaluatedBatch& batch : batches) {
    if (!batch.sums.empty())
      measures.add(step.objective()
                       .measures()
                       ->values(Tensor::from(batch.sums, {static_cast<int64_t>(batch.sums.size())}))
                       .to_vector<float>());
    if (batch.loss && batch.rows > 0) loss.add(*batch.loss, predict ? 1 : batch.rows);
    for (const Part& part : batch.outputs) {
      auto place =
          std::find_if(outputs.begin(), outputs.end(), [&](const auto& item) { return item.first == part.name; });
      if (place == outputs.end()) place = outputs.insert(outputs.end(), {part.name, {}});
      place->second.push_back(&part);
    }
    result.labels.insert(result.labels.end(), batch.labels.begin(), batch.labels.end());
    result.label_values.insert(result.label_values.end(), batch.label_values.begin(), batch.label_values.end());
    if (batch.token_labels) token_labels.push_back(&*batch.token_labels);
    result.rows += batch.rows;
  }
  for (const auto& [name, parts] : outputs) result.outputs.push_back(join(name, parts));
  if (!token_labels.empty()) {
    const Predictions::Array joined = join("labels", token_labels);
    result.labels.assign(joined.values.begin(), joined.values.end());
  }
  result.loss = loss.value();
  result.measures = measures.means();
  if (grouped) put_in_order(result, order);
  return result;
}

}  // namespace transom
