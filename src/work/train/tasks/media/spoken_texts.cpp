// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/media/spoken_texts.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "inputs/audio/whisper_languages.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::optional<int64_t> id_in(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
}

}  // namespace

SpokenTexts::SpokenTexts(Tokenizer tokenizer, const GenerativeModel& model, const ScriptArguments& script)
    : tokenizer_(std::move(tokenizer)), language_(script.language.value_or("")), task_(script.speech_task) {
  const Json& generation = json_of(model.generation_config());
  const std::string& where = script.model_name_or_path;
  many_languages_ = generation.value("is_multilingual", Json()) == true;
  start_ =
      id_in(generation, "decoder_start_token_id").value_or(model.config().get_int("decoder_start_token_id", 50257));
  no_times_ = id_in(generation, "no_timestamps_token_id");
  if (!many_languages_) {
    if (!language_.empty())
      fail(ErrorKind::kUsage, "--language: {} is a model of one language (generation_config.json: is_multilingual)",
           where);
    if (task_ == "translate")
      fail(ErrorKind::kUsage, "--speech_task translate: {} is a model of one language, which it transcribes", where);
    return;
  }
  const auto token = [&](const std::string& mark) {
    const auto id = tokenizer_.token_to_id(mark);
    if (!id) fail("{}: the tokenizer has no token {}", where, mark);
    return *id;
  };
  if (const auto known = generation.find("lang_to_id"); known != generation.end() && known->is_object())
    for (const auto& [mark, id] : known->items())
      if (id.is_number_integer()) languages_.push_back(id.get<int64_t>());
  std::sort(languages_.begin(), languages_.end());
  if (!language_.empty()) {
    const std::string mark = whisper_language_mark(language_);
    if (mark.empty())
      fail(ErrorKind::kUsage, "--language: expected a language of Whisper by its name or code (german, de), found {}",
           quoted(language_));
    language_id_ = token(mark);
    if (!std::binary_search(languages_.begin(), languages_.end(), *language_id_))
      fail(ErrorKind::kUsage, "--language: {} has no {} (generation_config.json: lang_to_id)", where, mark);
    prefix_.push_back(*language_id_);
  }
  task_id_ = token("<|" + task_ + "|>");
  prefix_.push_back(*task_id_);
  const int64_t no_times = token("<|notimestamps|>");
  if (!no_times_) no_times_ = no_times;
  prefix_.push_back(no_times);
}

std::vector<int64_t> SpokenTexts::labels(const std::string& text) const {
  if (!many_languages_) {
    std::vector<int64_t> ids = tokenizer_.encode(text).ids;
    if (!ids.empty() && ids.front() == start_) ids.erase(ids.begin());
    return ids;
  }
  std::vector<int64_t> ids = prefix_;
  const std::vector<int64_t> own = tokenizer_.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
  ids.insert(ids.end(), own.begin(), own.end());
  if (const auto end = tokenizer_.eos_token_id()) ids.push_back(*end);
  return ids;
}

Tensor SpokenTexts::beginnings(const Model& model, const Tensor& features) const {
  const NoGradient inference;
  const int64_t rows = features.dim(0);
  std::vector<TokenIds> all(static_cast<size_t>(rows), TokenIds{start_});
  if (language_id_) {
    for (TokenIds& ids : all) ids.push_back(*language_id_);
  } else if (!languages_.empty()) {
    const Tensor starts = Tensor::from(std::vector<int64_t>(static_cast<size_t>(rows), start_), {rows, 1});
    const std::vector<float> scores =
        cast(model.forward({{"input_features", features}, {"decoder_input_ids", starts}}).at("logits"), DType::kFloat32)
            .to_vector<float>();
    const std::vector<int64_t> heard = likeliest_languages(scores, all.size(), languages_);
    for (size_t row = 0; row < all.size(); ++row) all[row].push_back(heard[row]);
  }
  std::vector<int64_t> flat;
  for (TokenIds& ids : all) {
    if (task_id_) ids.push_back(*task_id_);
    if (no_times_) ids.push_back(*no_times_);
    flat.insert(flat.end(), ids.begin(), ids.end());
  }
  return Tensor::from(flat, {rows, static_cast<int64_t>(all[0].size())});
}

void SpokenTexts::tell(GenerativeModel& model) const {
  if (!many_languages_) return;
  set_field(model.generation_config(), "task", task_);
  if (!language_.empty()) set_field(model.generation_config(), "language", language_);
}

}  // namespace transom
