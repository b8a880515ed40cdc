// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/writing_ranker.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/hub/resolve.h"
#include "models/sentences/module_file.h"
#include "models/sentences/module_list.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScoreModule = "LogitScore";
// What Qwen3-Reranker was trained with (its model card).
constexpr const char* kPublishedTask = "Given a web search query, retrieve relevant passages that answer the query";
constexpr const char* kPublishedSystem =
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the "
    "answer can only be \"yes\" or \"no\".";

Json message_of(const char* role, std::string_view text, bool in_parts) {
  if (!in_parts) return {{"role", role}, {"content", text}};
  return {{"role", role}, {"content", Json::array({{{"type", "text"}, {"text", text}}})}};
}

}  // namespace

bool has_logit_score(const fs::path& directory) { return names_module(directory, kScoreModule); }

WritingRanker::WritingRanker(const std::string& directory, const LoadOptions& options)
    : text_([&] {
        LoadOptions load = options;
        load.task = "text-generation";
        return TextModel::load(directory, load);
      }()) {
  const fs::path folder = directory_of_model(directory);
  longest_ = text_.max_length();
  if (has_logit_score(folder)) {
    read_modules(folder);
    read_file_of_model(folder);
  } else {
    const auto yes = text_.tokenizer.token_to_id("yes"), no = text_.tokenizer.token_to_id("no");
    if (!yes || !no)
      fail(
          "text-ranking: expected a cross-encoder, or a language model that answers yes or no; {} has no tokens yes "
          "and no",
          directory);
    yes_ = *yes, no_ = *no;
    if (template_holds_pairs(Form::kFlat)) form_ = Form::kFlat;
    else if (template_holds_pairs(Form::kParts)) form_ = Form::kParts;
    else if (text_.tokenizer.token_to_id("<think>") && text_.tokenizer.token_to_id("<|im_start|>"))
      form_ = Form::kInstructed;
    else
      fail(
          "text-ranking: the chat template of {} has no places for messages of the roles query and document, so that "
          "it is not known how a pair is written",
          directory);
  }
  tail_ = tail(prompt_);
  const int64_t words = text_.model->config().get_int("vocab_size", 0);
  for (const int64_t id : {yes_, no_.value_or(0)})
    if (id < 0 || id >= words) fail("text-ranking: token {} is beyond the model's {}", id, words);
}

void WritingRanker::read_modules(const fs::path& directory) {
  const fs::path list = directory / "modules.json";
  for (const auto& [kind, folder] : read_module_list(list)) {
    if (kind == "Transformer") {
      if (!folder.empty())
        fail(ErrorKind::kUnsupported, "{}: a Transformer in a folder of its own ({}) is not supported", list.string(),
             folder.string());
      continue;
    }
    if (kind != kScoreModule)
      fail(ErrorKind::kUnsupported, "{}: {} is not known beside {}", list.string(), quoted(kind), kScoreModule);
    if (folder.empty()) fail("{}: expected a folder of its own for {}", list.string(), kScoreModule);
    ModuleFile file(directory / folder / "config.json");
    const Json yes = file.get("true_token_id"), no = file.get("false_token_id");
    if (!yes.is_number_integer()) fail("{}: true_token_id: expected the id of a token", file.where());
    if (!no.is_null() && !no.is_number_integer()) fail("{}: false_token_id: expected the id of a token", file.where());
    yes_ = yes.get<int64_t>();
    if (!no.is_null()) no_ = no.get<int64_t>();
    file.only("module_input_name", "causal_logits");
    file.finish();
  }
  ModuleFile settings(directory / "config_sentence_transformers.json");
  const std::string name = settings.text("default_prompt_name", "");
  if (!name.empty()) prompt_ = settings.object("prompts").text(name, "");
}

void WritingRanker::read_file_of_model(const fs::path& directory) {
  ModuleFile file(directory / "sentence_bert_config.json");
  file.only("transformer_task", "text-generation");
  file.only("module_output_name", "causal_logits");
  file.only("do_lower_case", false);
  file.without_effect({"backend", "unpad_inputs"});
  for (const char* name :
       {"model_args", "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs"}) {
    ModuleFile given = file.object(name);
    given.without_effect({"attn_implementation", "torch_dtype", "dtype", "trust_remote_code", "low_cpu_mem_usage",
                          "device_map", "use_safetensors", "use_cache", "padding_side", "use_fast"});
    given.finish();
  }
  if (const auto length = file.count("max_seq_length")) longest_ = length;
  const bool says = file.has("modality_config");
  ModuleFile modalities = file.object("modality_config"), messages = modalities.object("message");
  const std::string format = messages.text("format", "auto");
  messages.without_effect({"method", "method_output_name"});
  messages.finish();
  if (says && !modalities.has("message")) form_ = Form::kPair;
  else if (format == "structured") form_ = Form::kParts;
  else if (format == "auto" && !template_holds_pairs(Form::kFlat)) form_ = Form::kParts;
  ModuleFile processing = file.object("processing_kwargs"), text = processing.object("text"),
             chat = processing.object("chat_template");
  Json variables = processing.get("chat_template");
  if (const auto length = text.count("max_length")) longest_ = length;
  text.without_effect({"padding", "pad_to_multiple_of", "truncation", "padding_side", "logits_to_keep"});
  text.finish();
  for (const char* name : {"common", "audio", "image", "video"}) processing.object(name).finish();
  processing.finish();
  add_generation_prompt_ = chat.flag("add_generation_prompt", false);
  chat.only("restore_suffix", true);
  if (variables.is_object()) {
    for (const char* known : {"add_generation_prompt", "restore_suffix"}) variables.erase(known);
    variables_ = dump_json(variables);
  }
  file.finish();
  if (form_ != Form::kPair && !template_holds_pairs(form_))
    fail("{}: the chat template has no places for messages of the roles query and document", directory.string());
}

std::string WritingRanker::prompted(Form form, std::string_view query, std::string_view document,
                                    const std::string& prompt) const {
  if (form == Form::kInstructed)
    return fmt::format(
        "<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n<Instruct>: {}\n<Query>: {}\n<Document>: {}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        kPublishedSystem, prompt.empty() ? kPublishedTask : prompt, query, document);
  const bool in_parts = form == Form::kParts;
  Json messages = Json::array();
  if (!prompt.empty()) messages.push_back(message_of("system", prompt, in_parts));
  messages.push_back(message_of("query", query, in_parts));
  messages.push_back(message_of("document", document, in_parts));
  return text_.tokenizer.apply_chat_template(
      dump_json(messages), {.add_generation_prompt = add_generation_prompt_, .variables = variables_});
}

bool WritingRanker::template_holds_pairs(Form form) const {
  if (!text_.tokenizer.has_chat_template()) return false;
  try {
    const std::string text = prompted(form, "alpha", "bravo", "");
    return text.find("alpha") != text.npos && text.find("bravo") != text.npos && text.find("{'") == text.npos;
  } catch (const Error&) {  // of the template: it does not know such messages
    return false;
  }
}

std::vector<int64_t> WritingRanker::prompted_tokens(const std::string& query, const std::string& document,
                                                    const std::string& prompt) const {
  return text_.tokenizer.encode(prompted(form_, query, document, prompt), std::nullopt, {.add_special_tokens = false})
      .ids;
}

int64_t WritingRanker::tokens_of_pair(const std::string& query, const std::string& document) const {
  return static_cast<int64_t>(form_ == Form::kPair ? text_.tokenizer.encode(prompt_ + query, document).size()
                                                   : prompted_tokens(query, document, prompt_).size());
}

size_t WritingRanker::tail(const std::string& prompt) const {
  if (form_ == Form::kPair) return 0;
  const std::vector<int64_t> one = prompted_tokens("0", "0", prompt),
                             other = prompted_tokens("1 2 3 4", "1 2 3 4", prompt);
  const auto [end, ignored] = std::mismatch(one.rbegin(), one.rend(), other.rbegin(), other.rend());
  return static_cast<size_t>(end - one.rbegin());
}

std::vector<double> WritingRanker::scores_of(const std::vector<std::vector<int64_t>>& batch) const {
  size_t longest = 1;
  for (const auto& ids : batch) longest = std::max(longest, ids.size());
  std::vector<int64_t> ids, mask;
  for (const auto& row : batch) {
    if (row.empty()) fail("text-ranking: a pair without tokens has no score");
    ids.insert(ids.end(), longest - row.size(), text_.tokenizer.pad_token_id().value_or(0));
    ids.insert(ids.end(), row.begin(), row.end());
    mask.insert(mask.end(), longest - row.size(), 0);
    mask.insert(mask.end(), row.size(), 1);
  }
  const Shape shape{static_cast<int64_t>(batch.size()), static_cast<int64_t>(longest)};
  ForwardContext context;
  context.logits_to_keep = 1;
  const Tensor logits =
      text_.model
          ->forward({{"input_ids", Tensor::from(ids, shape)}, {"attention_mask", Tensor::from(mask, shape)}}, context)
          .at("logits");
  const std::vector<float> values = logits.to_vector<float>();
  const size_t words = values.size() / batch.size();
  std::vector<double> scores;
  for (size_t row = 0; row < batch.size(); ++row) {
    const float yes = values[row * words + static_cast<size_t>(yes_)];
    scores.push_back(no_ ? yes - values[row * words + static_cast<size_t>(*no_)] : yes);
  }
  return scores;
}

std::vector<double> WritingRanker::scores(const std::string& query, const std::vector<std::string>& documents,
                                          const Asked& asked) const {
  const NoGradient inference;
  const std::string& prompt = asked.prompt ? *asked.prompt : prompt_;
  const std::optional<int64_t> longest = asked.max_length ? asked.max_length : longest_;
  const size_t kept = prompt == prompt_ ? tail_ : tail(prompt);
  const auto tokens = [&](const std::string& document) {
    if (form_ == Form::kPair)
      return text_.tokenizer
          .encode(prompt + query, document, {.truncation = Truncation::kLongestFirst, .max_length = longest})
          .ids;
    std::vector<int64_t> ids = prompted_tokens(query, document, prompt);
    if (!longest || ids.size() <= static_cast<size_t>(*longest)) return ids;
    // What stands behind the document stays: the score is read there.
    const auto behind = static_cast<ptrdiff_t>(std::min(kept, static_cast<size_t>(*longest)));
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(*longest) - behind, ids.end() - behind);
    return ids;
  };
  std::vector<double> scores;
  std::vector<std::vector<int64_t>> batch;
  const auto run = [&] {
    const std::vector<double> some = scores_of(batch);
    scores.insert(scores.end(), some.begin(), some.end());
    batch.clear();
  };
  for (const std::string& document : documents) {
    batch.push_back(tokens(document));
    if (static_cast<int64_t>(batch.size()) == asked.batch_size) run();
  }
  if (!batch.empty()) run();
  return scores;
}

}  // namespace transom
