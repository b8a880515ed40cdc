// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/scoring/pair_scores.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/serve/api/known_fields.h"
#include "work/pipelines/text/pair_ranking.h"

namespace transom::serve {
namespace {

double score_of_classes(const Classes& classes, const std::vector<std::string>& labels, bool raw) {
  std::map<std::string, double> by_label;
  for (const auto& [label, score] : classes) by_label[label] = score;
  if (by_label.size() <= 1) {
    const double logit = by_label.empty() ? 0 : by_label.begin()->second;
    return raw ? logit : 1 / (1 + std::exp(-logit));
  }
  // The last class is the positive one.
  std::vector<float> logits;
  for (size_t i = 0; i < by_label.size(); ++i) {
    const std::string label = i < labels.size() ? labels[i] : "LABEL_" + std::to_string(i);
    logits.push_back(static_cast<float>(by_label[label]));
  }
  return raw ? logits.back() : softmax_of(logits).back();
}

// Of rankers, which cut documents alone: those stand at the end.
Json cut_of_pairs(const TooLong& too_long, const ServedModel& model) {
  const EncodeOptions cut = encode_options_of(too_long, model);
  if (cut.truncation == Truncation::kNone) return Json::object();
  if (too_long.side == Side::kLeft)
    throw ApiError(400, fmt::format("{} cuts documents at their end, where what is too long is to be cut on the left",
                                    model.name));
  return {{"max_length", *cut.max_length}};
}

using Pairs = std::vector<std::pair<std::string, std::string>>;
using TakeScores = std::function<void(std::vector<double>)>;

// Of vectors: how close those of a pair are.
void compute_similarities(const std::shared_ptr<Call>& call, ServedModel& model, const Pairs& pairs,
                          PairActivation activation, const VectorSettings& settings, const PairFields& fields,
                          TakeScores then) {
  if (activation == PairActivation::kNone)
    report_once(model.name, "raw_scores",
                fmt::format("{}: raw_scores and use_activation have no effect: scores are similarities", model.name));
  const SentenceModules& modules = model.embedder->model->modules();
  // Each text once.
  std::map<std::string, size_t> place;
  EncodedInputs all;
  const auto add = [&](const std::string& text, const char* field) {
    if (!place.emplace(text, all.encodings.size()).second) return;
    if (text.empty() && !settings.prompt && modules.default_prompt.empty())
      return all.encodings.push_back(model.tokenizer->encode(text));
    EncodedInputs inputs = encode_inputs(Json(text), field, model, 1, settings, true, true);
    all.left_out = inputs.left_out;
    all.encodings.push_back(std::move(inputs.encodings[0]));
  };
  std::vector<std::pair<size_t, size_t>> places;
  for (const auto& [a, b] : pairs) {
    add(a, fields.first), add(b, fields.second);
    places.emplace_back(place[a], place[b]);
  }
  // An empty text has no tokens where the tokenizer adds none ([CLS]): it goes with nothing.
  std::vector<size_t> computed(all.encodings.size(), SIZE_MAX);
  EncodedInputs with_tokens;
  with_tokens.left_out = all.left_out;
  for (size_t i = 0; i < all.encodings.size(); ++i) {
    if (all.encodings[i].size() == 0) continue;
    computed[i] = with_tokens.encodings.size();
    with_tokens.encodings.push_back(std::move(all.encodings[i]));
  }
  for (auto& [a, b] : places) a = computed[a], b = computed[b];
  return compute_vectors(
      call, model, std::move(with_tokens), std::nullopt,
      [similarity = modules.similarity, places = std::move(places), then = std::move(then)](const Vectors& vectors) {
        std::vector<double> scores;
        for (const auto& [a, b] : places)
          scores.push_back(std::max(a, b) == SIZE_MAX ? 0 : similarity_of(similarity, vectors.at(a), vectors.at(b)));
        then(std::move(scores));
      });
}

// Of a task that ranks. Each pair by itself: what a ranker makes of it does not hang on others.
void compute_rankings(const std::shared_ptr<Call>& call, ServedModel& model, const Pairs& pairs,
                      PairActivation activation, const VectorSettings& settings, const PairFields& fields,
                      TakeScores then) {
  std::vector<TaskInput> inputs;
  for (const auto& [a, b] : pairs) inputs.emplace_back(SentencesInput(a, {b}));
  Json parameters = cut_of_pairs(settings.too_long, model);
  if (const auto* ranking = dynamic_cast<const PairRanking*>(model.runner->find("text-ranking")))
    for (const auto& [a, b] : pairs) {
      const int64_t tokens = ranking->tokens_of_pair(a, b);
      const Json most = parameters.value("max_length", Json());
      if (most.is_null()) expect_fits(static_cast<size_t>(tokens), fields.second, model, settings.too_long);
      call->prompt_tokens += most.is_null() ? tokens : std::min(tokens, most.get<int64_t>());
    }
  if (activation != PairActivation::kAsModel)
    parameters["function_to_apply"] = activation == PairActivation::kNone ? "none" : "sigmoid";
  return compute_task(call, model, "text-ranking", inputs, std::move(parameters),
                      [then = std::move(then)](const std::vector<TaskResult>& results) {
                        std::vector<double> scores;
                        for (const TaskResult& result : results)
                          scores.push_back(std::get<std::vector<SentenceMatch>>(result).at(0).score);
                        then(std::move(scores));
                      });
}

}  // namespace

bool wants_raw_scores(RequestFields& fields) {
  bool raw = false;
  for (const char* name : {"use_activation", "activation", "softmax"}) raw = !fields.boolean(name).value_or(!raw);
  return raw;
}

Json class_parameters(bool raw) {
  Json parameters{{"top_k", nullptr}};
  if (raw) parameters["function_to_apply"] = "none";
  return parameters;
}

bool can_score(const ModelFacts& model) {
  return model.embeds || model.runs("text-classification") || model.runs("text-ranking");
}

SimilarTexts read_similar_texts(RequestFields& inputs, int64_t most) {
  SimilarTexts texts;
  const auto source = inputs.text("source_sentence");
  if (!source) refuse_field(texts.fields.first, "{}: missing; expected a string", texts.fields.first);
  if (source->empty()) refuse_field(texts.fields.first, "{}: expected a text that is not empty", texts.fields.first);
  const auto sentences = inputs.texts("sentences", static_cast<size_t>(most));
  if (!sentences) refuse_field(texts.fields.second, "{}: missing; expected a list of strings", texts.fields.second);
  if (sentences->empty())
    refuse_field(texts.fields.second, "{}: expected at least one text, found an empty list", texts.fields.second);
  for (const std::string& sentence : *sentences) texts.pairs.emplace_back(*source, sentence);
  return texts;
}

void compute_scores(const std::shared_ptr<Call>& call, ServedModel& model,
                    const std::vector<std::pair<std::string, std::string>>& pairs, PairActivation activation,
                    const VectorSettings& settings, const PairFields& fields,
                    std::function<void(std::vector<double>)> then) {
  if (model.embedder) return compute_similarities(call, model, pairs, activation, settings, fields, std::move(then));
  refuse_prompt(settings);
  if (model.runs("text-ranking"))
    return compute_rankings(call, model, pairs, activation, settings, fields, std::move(then));
  const std::string& own = model.runner->pair_activation;
  if (activation == PairActivation::kAsModel && !own.empty() && own != "Identity" && own != "Sigmoid")
    throw ApiError(
        400, fmt::format("the checkpoint asks for the activation {}; Identity and Sigmoid are supported", quoted(own)));
  const bool raw = activation == PairActivation::kNone ||
                   (activation == PairActivation::kAsModel && own == "Identity" && model.labels.size() <= 1);
  std::vector<TaskInput> inputs;
  for (const auto& [a, b] : pairs) inputs.emplace_back(TextInput(a, b));
  compute_task(
      call, model, "text-classification", inputs, {{"function_to_apply", "none"}, {"top_k", nullptr}},
      [raw, labels = model.labels, then = std::move(then)](const std::vector<TaskResult>& results) {
        std::vector<double> scores;
        for (const TaskResult& result : results)
          scores.push_back(score_of_classes(std::get<Classes>(result), labels, raw));
        then(std::move(scores));
      },
      &settings.too_long, fields.second);
}

}  // namespace transom::serve
