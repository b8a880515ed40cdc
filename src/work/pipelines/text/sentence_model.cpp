// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/sentence_model.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/threads/prefetcher.h"
#include "files/config/config.h"
#include "files/hub/resolve.h"
#include "transom/ops.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/sparse_embedding.h"

namespace transom {
namespace {

constexpr int64_t kTogether = 2048;  // texts that are tokenised and sorted together

}  // namespace

SentenceModel SentenceModel::load(const std::string& directory, const LoadOptions& options, bool later) {
  SentenceModel model;
  try {
    model.modules_ = read_sentence_modules(directory_of_model(directory));
  } catch (const Error& error) {
    if (!later) throw;
    model.refusal_ = error.what();
  }
  const SentenceModules& modules = model.modules_;
  LoadOptions load = options;
  if (modules.sparse) load.task = modules.task();
  model.text_ = std::make_shared<TextModel>(
      TextModel::load(model.folder(directory), load, {.do_lower_case = modules.do_lower_case}));
  model.max_length_ = longest_sentence(modules, *model.text_->model, model.text_->tokenizer);
  model.head_ =
      SentenceHead(modules, model.text_->model->config().get_int(modules.sparse ? "vocab_size" : "hidden_size", 0));
  return model;
}

std::string SentenceModel::folder(const std::string& directory) const {
  return modules_.transformer.empty() ? directory : (std::filesystem::path(directory) / modules_.transformer).string();
}

const std::string& SentenceModel::prompt_named(const std::string& name) const {
  const auto found = modules_.prompts.find(name);
  if (found != modules_.prompts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, text] : modules_.prompts) names.push_back(known);
  fail(ErrorKind::kUsage, "prompt_name: expected {}, found {}",
       names.empty() ? "nothing, since this model has no prompts" : fmt::format("{}", fmt::join(names, " or ")),
       quoted(name));
}

std::vector<Encoding> SentenceModel::encode(const std::vector<std::string>& texts) const {
  return text_->tokenizer.encode_batch(
      texts, {},
      {.truncation = max_length_ ? Truncation::kLongestFirst : Truncation::kNone, .max_length = max_length_});
}

// The tokens of the prompt alone but for a special one at the end, as sentence-transformers counts them.
int64_t SentenceModel::left_out(const std::string& prompt) const {
  if (prompt.empty() || modules_.include_prompt) return 0;
  const std::vector<int64_t> ids = encode({prompt})[0].ids;
  const std::vector<int64_t> special = text_->tokenizer.all_special_ids();
  const bool ends = !ids.empty() && std::find(special.begin(), special.end(), ids.back()) != special.end();
  return static_cast<int64_t>(ids.size()) - (ends ? 1 : 0);
}

Tensor SentenceModel::vectors_of(const Tensor& states, const std::vector<const Encoding*>& batch,
                                 const EmbeddingOptions& options, int64_t left_out) const {
  const int64_t rows = states.dim(0), T = states.dim(1);
  // The tokens that take part: of rows that fill the batch up those of the last one.
  std::vector<float> values(static_cast<size_t>(rows * T));
  for (int64_t row = 0; row < rows; ++row) {
    const Encoding& tokens = *batch[std::min<size_t>(static_cast<size_t>(row), batch.size() - 1)];
    for (int64_t t = left_out; t < static_cast<int64_t>(tokens.size()); ++t)
      values[static_cast<size_t>(row * T + t)] = 1;
  }
  const Tensor counted = Tensor::from(values, {rows, T});
  // In f32, whatever the model computes in.
  const Computing computing{.batch_invariant = text_->model->computing().batch_invariant};
  Tensor vector = options.pooling ? pooled(cast(states, DType::kFloat32), counted, *options.pooling)
                                  : head_(states, counted, computing, options.normalize.value_or(true));
  const std::optional<int64_t> kept =
      options.truncate_dim || options.pooling ? options.truncate_dim : modules_.truncate_dim;
  if (kept && *kept < vector.dim(1)) vector = slice(vector, 1, 0, *kept);
  return options.normalize == true ? at_length_one(vector) : vector;
}

std::vector<std::vector<float>> SentenceModel::embed(const std::vector<Encoding>& encodings,
                                                     const EmbeddingOptions& options, int64_t left_out) const {
  if (!options.pooling && !refusal_.empty()) fail(ErrorKind::kUnsupported, "{}", refusal_);
  const NoGradient inference;
  const size_t kBatch = modules_.sparse ? 4 : 32;  // each token has a score of every other one there
  // A text without tokens passes the model as one that no pooling counts.
  Encoding nothing;
  nothing.ids = {text_->tokenizer.pad_token_id().value_or(0)};
  nothing.type_ids = {0}, nothing.attention_mask = {1}, nothing.special_tokens_mask = {1};
  std::vector<size_t> order(encodings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return encodings[a].size() > encodings[b].size(); });
  std::vector<std::vector<float>> vectors(encodings.size());
  for (size_t first = 0; first < order.size(); first += kBatch) {
    std::vector<const Encoding*> batch, given;
    for (size_t i = first; i < std::min(order.size(), first + kBatch); ++i) {
      batch.push_back(&encodings[order[i]]);
      given.push_back(batch.back()->size() > 0 ? batch.back() : &nothing);
    }
    // Behind the tokens, whatever the tokenizer says: positions count from the first one, as in a text alone.
    const Tensor states = text_->model->forward(text_->inputs_of(given, Side::kRight)).at(head_.reads());
    const Tensor vector = vectors_of(states, batch, options, left_out);
    const std::vector<float> values = vector.to_vector<float>();
    const auto width = static_cast<ptrdiff_t>(vector.dim(1));
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i) * width;
      vectors[order[first + i]].assign(begin, begin + width);
      if (const auto most = options.max_active_dims ? options.max_active_dims : modules_.max_active_dims)
        keep_largest(vectors[order[first + i]], *most);
    }
  }
  return vectors;
}

std::vector<std::vector<float>> SentenceModel::embed(const std::vector<std::string>& texts,
                                                     const EmbeddingOptions& options) const {
  const NoGradient inference;
  const std::string& prompt = options.prompt ? *options.prompt : modules_.default_prompt;
  const int64_t first_tokens = left_out(prompt);
  const auto count = static_cast<int64_t>(texts.size());
  Prefetcher<std::vector<Encoding>> parts((count + kTogether - 1) / kTogether, [&](int64_t number) {
    std::vector<std::string> part;
    for (int64_t i = number * kTogether; i < std::min(count, (number + 1) * kTogether); ++i)
      part.push_back(prompt + texts[static_cast<size_t>(i)]);
    return encode(part);
  });
  std::vector<std::vector<float>> vectors;
  while (parts.left() > 0)
    for (std::vector<float>& vector : embed(parts.next(), options, first_tokens)) vectors.push_back(std::move(vector));
  return vectors;
}

TaskParameters embedding_parameters() {
  return {{"prompt_name", TaskParameter::Type::kText,
           "name of a prompt in config_sentence_transformers.json that texts begin with (default: as the file says)"},
          {"prompt", TaskParameter::Type::kText, "what texts begin with"},
          {"normalize_embeddings", TaskParameter::Type::kFlag,
           "make vectors of length 1 also where modules.json does not", "false"},
          {"truncate_dim", TaskParameter::Type::kInteger, "keep so many numbers of each vector"},
          {"max_active_dims", TaskParameter::Type::kInteger,
           "of SPLADE's vectors keep so many weights, the largest (default: as the file says)"}};
}

namespace {

// Of a model that gives weights of tokens alone, which has no other pooling and no first numbers.
std::optional<int64_t> active_dims(const TaskOptions& given, const EmbeddingOptions& options,
                                   const SentenceModules& modules) {
  if (modules.sparse && options.pooling)
    fail(ErrorKind::kUsage, "pooling: expected auto, since this model gives weights of tokens, found {}",
         name_of(*options.pooling));
  if (modules.sparse && options.truncate_dim)
    fail(ErrorKind::kUsage, "truncate_dim: this model gives weights of tokens; see max_active_dims");
  if (!is_given(given, "max_active_dims")) return std::nullopt;
  if (!modules.sparse)
    fail(ErrorKind::kUsage, "max_active_dims: has no effect: this model does not give weights of tokens");
  const int64_t most = int_option(given, "max_active_dims", 0);
  if (most < 1) fail(ErrorKind::kUsage, "max_active_dims: expected a number above 0, found {}", most);
  return most;
}

}  // namespace

EmbeddingOptions embedding_options(const TaskOptions& given, const std::string& pooling, const SentenceModel& model) {
  EmbeddingOptions options;
  if (pooling != "auto") {
    options.pooling = pooling_mode_of(pooling);
    if (!options.pooling)
      fail("pooling: expected auto, {}, found {}", fmt::join(pooling_mode_names(), ", "), quoted(pooling));
    options.prompt = "";
  }
  if (const std::string name = text_option(given, "prompt_name", ""); !name.empty()) {
    if (given.contains("prompt")) fail(ErrorKind::kUsage, "prompt: not with prompt_name");
    options.prompt = model.prompt_named(name);
  }
  if (given.contains("prompt")) options.prompt = text_option(given, "prompt", "");
  if (flag_option(given, "normalize_embeddings", false)) options.normalize = true;
  if (const int64_t kept = int_option(given, "truncate_dim", 0); kept != 0) {
    if (kept < 1) fail("truncate_dim: expected a number above 0, found {}", kept);
    options.truncate_dim = kept;
  }
  options.max_active_dims = active_dims(given, options, model.modules());
  return options;
}

}  // namespace transom
