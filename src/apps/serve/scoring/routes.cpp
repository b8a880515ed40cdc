// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/scoring/routes.h"

#include <algorithm>
#include <numeric>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/scoring/pair_scores.h"

namespace transom::serve {
namespace {

std::vector<size_t> falling(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

ServedModel& model_of(const std::shared_ptr<Call>& call, RequestFields& fields, const char* purpose) {
  const auto name = fields.text("model");
  return call->use_model(name ? &*name : nullptr, can_score, purpose);
}

std::vector<std::string> documents_of(const Json* list, const char* field, int64_t most) {
  if (!list) refuse_field(field, "{}: missing; expected a list of texts", field);
  if (list->empty()) refuse_field(field, "{}: expected at least one text, found an empty list", field);
  if (static_cast<int64_t>(list->size()) > most)
    refuse_field(field, "{}: expected at most {} items, found {}", field, most, list->size());
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    const Json text = item.is_object() ? item.value("text", Json()) : item;
    for (const char* media : {"image", "images", "image_url", "video", "audio", "content"})
      if (item.is_object() && !item.value(media, Json()).is_null())
        refuse_field(field, "{}: expected texts alone, found an object with {}", field, quoted(media));
    if (!text.is_string())
      refuse_field(field, "{}: expected texts or objects with a text, found {}", field, quoted(compact(item)));
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::string query_of(RequestFields& fields) {
  auto query = fields.text("query");
  if (!query) refuse_field("query", "query: missing; expected a string");
  if (query->empty()) refuse_field("query", "query: expected a text that is not empty");
  return std::move(*query);
}

// A string, or a list of at least one.
std::vector<std::string> texts_of(const std::optional<std::vector<std::string>>& given, const char* field) {
  if (!given) refuse_field(field, "{}: missing; expected a string or a list of strings", field);
  if (given->empty()) refuse_field(field, "{}: expected at least one text, found an empty list", field);
  return *given;
}

Json usage_of(const Call& call) {
  return {{"prompt_tokens", call.prompt_tokens}, {"total_tokens", call.prompt_tokens}};
}

// {"query", "texts", "raw_scores", "return_text"} -> [{"index", "score", "text"}]
void rerank_as_tei(const std::shared_ptr<Call>& call, RequestFields& fields) {
  call->answer_errors_as(ErrorForm::kTei);
  ServedModel& model = model_of(call, fields, "ranking");
  const std::string query = query_of(fields);
  const auto texts = documents_of(fields.list("texts"), "texts", call->services().options.max_client_batch_size);
  const bool raw = fields.boolean("raw_scores").value_or(false),
             with_text = fields.boolean("return_text").value_or(false);
  VectorSettings settings = tei_settings();
  read_vector_settings(fields, settings);
  expect_known_fields(fields, "/rerank");
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : texts) pairs.emplace_back(query, text);
  compute_scores(call, model, pairs, raw ? PairActivation::kNone : PairActivation::kSigmoid, settings,
                 {"query", "texts"}, [call, texts, with_text](const std::vector<double>& scores) {
                   Json list = Json::array();
                   for (const size_t i : falling(scores)) {
                     list.push_back({{"index", i}, {"score", written_score(scores[i])}});
                     if (with_text) list.back()["text"] = texts[i];
                   }
                   call->reply(list);
                 });
}

void rerank(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  if (body.contains("texts")) return rerank_as_tei(call, fields);
  ServedModel& model = model_of(call, fields, "ranking");
  const std::string query = query_of(fields);
  const auto texts =
      documents_of(fields.list("documents"), "documents", call->services().options.max_client_batch_size);
  const auto top = fields.integer("top_n", 0, INT32_MAX);
  const bool with_text = fields.boolean("return_documents").value_or(true);
  const VectorSettings settings = read_pooling_settings(fields);
  const auto of_query = fields.integer("max_tokens_per_query", 1, INT32_MAX),
             of_document = fields.integer("max_tokens_per_doc", 1, INT32_MAX);
  const bool raw = wants_raw_scores(fields);
  expect_known_fields(fields, "/rerank");
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto cut = [&](const std::string& text, const std::optional<int64_t>& tokens) {
    return tokens ? first_tokens(text, *tokens, *model.tokenizer) : text;
  };
  const std::string asked = cut(query, of_query);
  for (const std::string& text : texts) pairs.emplace_back(asked, cut(text, of_document));
  compute_scores(
      call, model, pairs, raw ? PairActivation::kNone : PairActivation::kAsModel, settings, {"query", "documents"},
      [call, texts, top, with_text, name = model.name](const std::vector<double>& scores) {
        Json results = Json::array();
        for (const size_t i : falling(scores)) {
          if (top && *top > 0 && static_cast<int64_t>(results.size()) == *top) break;
          Json item{{"index", i}};
          if (with_text) item["document"] = {{"text", texts[i]}};
          item["relevance_score"] = written_score(scores[i]);
          results.push_back(std::move(item));
        }
        call->reply(
            {{"id", new_identifier("rerank-")}, {"model", name}, {"usage", usage_of(*call)}, {"results", results}});
      });
}

// text_1 and text_2, 1:1, 1:N or N:N.
void score(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  ServedModel& model = model_of(call, fields, "scores");
  const size_t most = static_cast<size_t>(call->services().options.max_client_batch_size);
  PairFields names{"text_1", "text_2"};  // vLLM has both pairs of names
  if (!fields.any("text_1") && fields.any("queries")) names.first = "queries";
  if (!fields.any("text_2") && fields.any("documents")) names.second = "documents";
  const auto first = texts_of(fields.texts(names.first, most), names.first),
             second = texts_of(fields.texts(names.second, most), names.second);
  if (first.size() != 1 && first.size() != second.size())
    refuse_field(names.second, "{}: expected as many texts as {} ({}), found {}", names.second, names.first,
                 first.size(), second.size());
  const VectorSettings settings = read_pooling_settings(fields);
  const bool raw = wants_raw_scores(fields);
  fields.choice("encoding_format", {"float"});
  expect_known_fields(fields, "/score");
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i < second.size(); ++i) pairs.emplace_back(first[first.size() == 1 ? 0 : i], second[i]);
  compute_scores(call, model, pairs, raw ? PairActivation::kNone : PairActivation::kAsModel, settings, names,
                 [call, name = model.name](const std::vector<double>& scores) {
                   Json data = Json::array();
                   for (size_t i = 0; i < scores.size(); ++i)
                     data.push_back({{"index", i}, {"object", "score"}, {"score", written_score(scores[i])}});
                   call->reply({{"id", new_identifier("score-")},
                                {"object", "list"},
                                {"model", name},
                                {"data", data},
                                {"usage", usage_of(*call)}});
                 });
}

// {"inputs": {"source_sentence", "sentences"}} -> [similarity]
void similarity(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  ServedModel& model = model_of(call, fields, "similarity");
  const Json* given = fields.object("inputs");
  if (!given) refuse_field("inputs", "inputs: missing; expected an object");
  RequestFields inputs(*given, "inputs");
  const SimilarTexts texts = read_similar_texts(inputs, call->services().options.max_client_batch_size);
  const Json none = Json::object();
  const Json* more = fields.object("parameters");
  RequestFields parameters(more ? *more : none, "parameters");
  VectorSettings settings = tei_settings();
  read_vector_settings(parameters, settings);
  expect_known_fields(inputs, "/similarity");
  expect_known_fields(parameters, "/similarity");
  expect_known_fields(fields, "/similarity");
  compute_scores(call, model, texts.pairs, PairActivation::kAsModel, settings, texts.fields,
                 [call](const std::vector<double>& scores) {
                   call->reply(written(std::vector<float>(scores.begin(), scores.end())));
                 });
}

// {"input"} -> data[{"index", "label", "probs", "num_classes"}]
void classify(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  const auto usable = [](const ModelFacts& facts) { return facts.runs("text-classification"); };
  ServedModel& model = call->use_model(name ? &*name : nullptr, usable, "classes");
  const auto texts =
      texts_of(fields.texts("input", static_cast<size_t>(call->services().options.max_client_batch_size)), "input");
  const VectorSettings settings = read_pooling_settings(fields);
  refuse_prompt(settings);
  const bool raw = wants_raw_scores(fields);
  expect_known_fields(fields, "/classify");
  compute_task(
      call, model, "text-classification", {texts.begin(), texts.end()}, class_parameters(raw),
      [call, &model](const std::vector<TaskResult>& results) {
        Json data = Json::array();
        for (size_t i = 0; i < results.size(); ++i) {
          const auto& classes = std::get<Classes>(results[i]);
          Json probabilities = Json::array();
          for (const std::string& label : model.labels)
            for (const ClassScore& each : classes)
              if (each.label == label) probabilities.push_back(written_score(each.score));
          data.push_back({{"index", i},
                          {"label", classes.at(0).label},
                          {"probs", probabilities},
                          {"num_classes", classes.size()}});
        }
        call->reply({{"id", new_identifier("classify-")},
                     {"object", "list"},
                     {"model", model.name},
                     {"data", data},
                     {"usage", usage_of(*call)}});
      },
      &settings.too_long, "input");
}

}  // namespace

std::vector<Route> scoring_routes() {
  return {{"POST", "/rerank", rerank},    {"POST", "/v1/rerank", rerank},
          {"POST", "/v2/rerank", rerank}, {"POST", "/score", score},
          {"POST", "/v1/score", score},   {"POST", "/classify", classify},
          {"POST", "/pooling", pooling},  {"POST", "/similarity", similarity, ErrorForm::kTei}};
}

}  // namespace transom::serve
