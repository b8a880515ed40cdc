// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/sentence_objective.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/step/text_places.h"

namespace transom {
namespace {

constexpr const char* kShare = "regularizer_share";    // f32 [B], all alike
constexpr const char* kLossFile = "loss.safetensors";  // of the weights that belong to the loss

BatchMeasures measures_of_terms(const SpladeOptions& options) {
  std::vector<std::string> names{"base_loss", "document_regularizer_loss"};
  if (options.query_weight) names.emplace_back("query_regularizer_loss");
  const auto sums = [names](const NamedTensors&, const NamedTensors& outputs) {
    std::vector<Tensor> totals;
    for (const std::string& name : names) totals.push_back(outputs.at(name));
    return joined_sums(totals, std::vector<Tensor>(names.size(), outputs.at("part_of_batch")));
  };
  return {
      .names = names, .sums = sums, .values = [](const Tensor& sums_) { return ratios_of(sums_); }, .tokens = false};
}

}  // namespace

SentenceObjective::SentenceObjective(SentenceHead head, std::vector<Set> sets, int64_t updates)
    : head_(std::move(head)), sets_(std::move(sets)), updates_(updates) {
  if (sets_.size() == 1 && sets_[0].splade) measures_ = measures_of_terms(*sets_[0].splade);
}

double SentenceObjective::share_of(const SpladeOptions& splade) const {
  return updates_ == 0 ? 1 : splade.share(current_, updates_);
}

void SentenceObjective::add_share(NamedTensors& inputs) const {
  const size_t set = set_of(inputs);
  if (!sets_[set].splade) return;
  const int64_t rows = inputs.at(sentence_input(set, 0, "input_ids")).dim(0);
  const auto share = static_cast<float>(share_of(*sets_[set].splade));
  inputs.set(kShare, Tensor::from(std::vector<float>(static_cast<size_t>(rows), share), {rows}));
}

void SentenceObjective::complete_batches(Model&, std::vector<NamedTensors>& micro_batches, int64_t) {
  current_ = done_;
  for (NamedTensors& inputs : micro_batches) add_share(inputs);
}

void SentenceObjective::complete_evaluation(Model&, NamedTensors& inputs, int64_t) { add_share(inputs); }

std::vector<std::pair<std::string, double>> SentenceObjective::take_numbers(bool training) {
  if (!measures_ || !training) return {};
  const SpladeOptions& splade = *sets_[0].splade;
  const double share = share_of(splade);
  std::vector<std::pair<std::string, double>> numbers{{"document_regularizer_weight", splade.document_weight * share}};
  if (splade.query_weight) numbers.emplace_back("query_regularizer_weight", *splade.query_weight * share);
  return numbers;
}

std::string sentence_input(size_t set, size_t column, std::string_view name) {
  return fmt::format("{}/sentence_{}/{}", set, column, name);
}

size_t SentenceObjective::set_of(const NamedTensors& inputs) const {
  for (size_t set = 0; set < sets_.size(); ++set)
    if (inputs.find(sentence_input(set, 0, "input_ids")).defined()) return set;
  fail("a batch of sentences: expected input_ids of a column, found none");
}

Tensor SentenceObjective::vectors(const LossPass& pass, const NamedTensors& inputs, size_t set, size_t column,
                                  int64_t begin, int64_t end, int64_t pass_number) const {
  const auto rows = [&](std::string_view name) {
    const Tensor all = inputs.find(sentence_input(set, column, name));
    return all.defined() && (begin > 0 || end < all.dim(0)) ? slice(all, 0, begin, end) : all;
  };
  ForwardContext context = pass.context;
  // Each pass has draws of its own, the same whenever it is made again.
  if (pass_number > 0 && context.dropout_key.defined())
    context.dropout_key =
        context.dropout_key + Tensor::from(std::vector<int64_t>{pass_number * 0x632BE59BD9B4E019, 0}, {2});
  const Tensor mask = rows("attention_mask"), counted = rows("counted");
  NamedTensors texts{{"input_ids", rows("input_ids")}, {"attention_mask", mask}};
  const Tensor all = inputs.at(sentence_input(set, column, "attention_mask"));
  const bool whole = begin == 0 && end == all.dim(0);
  if (whole) copy_places(inputs, sentence_input(set, column, ""), texts);
  else if (inputs.find(sentence_input(set, column, "token_places")).defined())
    add_places_of_rows(all, begin, end, texts);
  const NamedTensors states = pass.model.forward(texts, context);
  return head_(states.at(head_.reads()), cast(counted.defined() ? counted : mask, DType::kFloat32), kAsGiven);
}

Tensor SentenceObjective::loss_of(const LossPass& pass, const NamedTensors& inputs, size_t set,
                                  std::vector<Tensor> columns, NamedTensors* outputs) const {
  // Losses of several sets have means over unlike things: each batch counts as much as another one, as in the library.
  ForwardContext context = pass.context;
  if (sets_.size() > 1) context.loss_divisors = nullptr;
  const Tensor share = inputs.find(kShare);
  return (*sets_[set].loss)(VectorBatch{.columns = std::move(columns),
                                        .labels = inputs.find("labels"),
                                        .context = context,
                                        .rank = pass.rank,
                                        .ranks = pass.ranks,
                                        .share = share.defined() ? reshape(slice(share, 0, 0, 1), {}) : Tensor(),
                                        .terms = measures_ ? outputs : nullptr});
}

Tensor SentenceObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  const size_t set = set_of(inputs);
  std::vector<Tensor> columns;
  for (size_t column = 0; column < sets_[set].columns; ++column) {
    const int64_t rows = inputs.at(sentence_input(set, column, "input_ids")).dim(0);
    columns.push_back(vectors(pass, inputs, set, column, 0, rows, static_cast<int64_t>(column)));
    if (outputs) outputs->set(fmt::format("sentence_embedding_{}", column), columns.back());
  }
  return loss_of(pass, inputs, set, std::move(columns), outputs);
}

std::optional<LossInParts> SentenceObjective::in_parts(const LossPass& pass, const NamedTensors& inputs) const {
  const size_t set = set_of(inputs), count = sets_[set].columns;
  const int64_t rows = inputs.at(sentence_input(set, 0, "input_ids")).dim(0);
  const int64_t size = sets_[set].loss->mini_batch_size();
  if (size == 0 || rows <= size) return std::nullopt;
  struct Part {
    size_t column;
    int64_t begin, end, number;
  };
  std::vector<Part> parts;
  for (size_t column = 0; column < count; ++column)
    for (int64_t begin = 0; begin < rows; begin += size)
      parts.push_back({column, begin, std::min(begin + size, rows), static_cast<int64_t>(parts.size())});
  const auto vectors_of = [this, pass, inputs, set](const Part& part) {
    return vectors(pass, inputs, set, part.column, part.begin, part.end, part.number);
  };
  std::vector<std::vector<Tensor>> pieces(count);
  {
    const NoGradient values_only;
    for (const Part& part : parts) {
      pieces[part.column].push_back(vectors_of(part));
      eval({&pieces[part.column].back(), 1});  // before the next one, so that one alone has activations
    }
  }
  std::vector<Tensor> columns;
  for (const std::vector<Tensor>& of_column : pieces) {
    Tensor whole;
    {
      const NoGradient values_only;
      whole = concatenate(of_column, 0);
      eval({&whole, 1});
    }
    columns.push_back(whole.set_requires_grad());
  }
  LossInParts result;
  result.loss = loss_of(pass, inputs, set, columns, nullptr);
  std::vector<Tensor> slopes = gradients(result.loss, columns);
  result.loss = result.loss.detach();
  for (Tensor& slope : slopes) slope = slope.detach();
  std::vector<Tensor> all = slopes;
  all.push_back(result.loss);
  eval(all);
  for (const Part& part : parts)
    result.parts.emplace_back([vectors_of, part, slope = slopes[part.column]] {
      return sum(vectors_of(part) * slice(slope, 0, part.begin, part.end));
    });
  return result;
}

std::vector<std::shared_ptr<Parameter>> SentenceObjective::parameters() const {
  std::vector<std::shared_ptr<Parameter>> all = head_.parameters();
  for (size_t set = 0; set < sets_.size(); ++set)
    for (const auto& parameter : sets_[set].loss->parameters()) {
      if (sets_.size() > 1 && parameter->name.starts_with("loss."))
        parameter->name = fmt::format("loss_{}.{}", set, parameter->name.substr(5));
      all.push_back(parameter);
    }
  return all;
}

void SentenceObjective::save(const std::filesystem::path& directory) const {
  head_.save(directory);
  std::vector<std::vector<std::byte>> bytes;
  NamedViews views;
  for (const Set& set : sets_)
    for (const auto& parameter : set.loss->parameters()) {
      bytes.push_back(parameter->value.to_bytes());
      views.emplace_back(parameter->name, TensorView{parameter->value.dtype(), parameter->value.shape(), {}, nullptr});
    }
  for (size_t i = 0; i < views.size(); ++i) views[i].second.bytes = bytes[i];
  if (!views.empty()) write_safetensors(directory / kLossFile, views);
}

void SentenceObjective::load(const std::filesystem::path& directory) {
  head_.load(directory);
  if (const auto state = directory / "trainer_state.json"; updates_ > 0 && path_exists(state))
    done_ = read_json(state).value("global_step", int64_t{0});
  const bool has_weights = [&] {
    for (const Set& set : sets_)
      if (!set.loss->parameters().empty()) return true;
    return false;
  }();
  if (has_weights) {
    const SafetensorsFile file = SafetensorsFile::open(directory / kLossFile);
    for (const Set& set : sets_)
      for (const auto& parameter : set.loss->parameters()) {
        const TensorView* view = file.find(parameter->name);
        if (!view || view->shape != parameter->value.shape() || view->dtype != DType::kFloat32)
          fail("{}: expected {} of float32 {}, found {}", (directory / kLossFile).string(), parameter->name,
               to_string(parameter->value.shape()), view ? to_string(view->shape) : "none");
        parameter->value = Tensor::from_bytes(view->bytes, {view->dtype, view->shape});
      }
  }
  for (const auto& parameter : parameters()) parameter->value.set_requires_grad();
}

}  // namespace transom
