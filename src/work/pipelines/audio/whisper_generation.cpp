// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/whisper_generation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "transom/ops.h"
#include "work/pipelines/audio/whisper_languages.h"

namespace transom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kSecondsATimestamp = 0.02;

std::map<std::string, int64_t> ids_of(const Json& json, const char* field) {
  std::map<std::string, int64_t> ids;
  const auto found = json.find(field);
  if (found == json.end() || !found->is_object()) return ids;
  for (const auto& [name, id] : found->items()) {
    if (!id.is_number_integer()) fail("generation_config.json: {}: {}: expected a token id", field, quoted(name));
    ids[name] = id.get<int64_t>();
  }
  return ids;
}

std::optional<int64_t> id_of(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
}

std::string text_of(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

double log_sum_exp(std::span<const float> scores) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  if (std::isinf(highest)) return highest;
  double total = 0;
  for (const float score : scores) total += std::exp(score - highest);
  return highest + std::log(total);
}

// `frames` frames from `begin` on, with zeros where there are none.
Tensor window_of(const Tensor& features, int64_t begin, int64_t frames) {
  const int64_t there = std::min(frames, features.dim(2) - begin);
  const Tensor part = slice(features, 2, begin, begin + there);
  return there == frames ? part : pad(part, {0, 0, 0}, {0, 0, frames - there});
}

}  // namespace

WhisperWriter::WhisperWriter(const Model& model, const Json& generation)
    : model_(model),
      window_(2 * model.config().get_int("max_source_positions", 1500)),
      start_(id_of(generation, "decoder_start_token_id")
                 .value_or(model.config().get_int("decoder_start_token_id", 50257))),
      languages_(ids_of(generation, "lang_to_id")),
      tasks_(ids_of(generation, "task_to_id")),
      no_timestamps_(id_of(generation, "no_timestamps_token_id")),
      max_initial_timestamp_(id_of(generation, "max_initial_timestamp_index")),
      task_(text_of(generation, "task")),
      language_(text_of(generation, "language")),
      wants_timestamps_(generation.value("return_timestamps", Json()) == true) {
  const Json& config = json_of(model.config());
  for (const Json* source : {&generation, &config}) {
    const auto forced = source->find("forced_decoder_ids");
    if (forced == source->end() || !forced->is_array() || forced->empty()) continue;
    for (const Json& pair : *forced) {
      if (!pair.is_array() || pair.size() != 2 || pair[0] != static_cast<int64_t>(forced_.size()) + 1)
        fail("forced_decoder_ids: expected [[1, token], [2, token], ...], found {}", quoted(dump_json(*forced)));
      forced_.push_back(pair[1].is_number_integer() ? pair[1].get<int64_t>() : -1);
    }
    break;
  }
}

int64_t WhisperWriter::language_of(const std::string& language) const {
  std::string name = language;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (languages_.empty()) fail("language: this model's generation_config.json has no lang_to_id");
  const std::string code = whisper_language_code(name);
  for (const std::string& token : {name, "<|" + code + "|>"})
    if (const auto found = languages_.find(token); found != languages_.end()) return found->second;
  fail("language: {} is not a language of this model", quoted(language));
}

// The likeliest of the languages behind the start token.
int64_t WhisperWriter::detected_language(const Tensor& features) const {
  const Tensor start = Tensor::from(std::vector<int64_t>{start_}, {1, 1});
  const auto scores =
      model_.forward({{"input_features", features}, {"decoder_input_ids", start}}).at("logits").to_vector<float>();
  int64_t best = -1;
  std::vector<int64_t> ids;
  for (const auto& [name, id] : languages_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const int64_t id : ids)
    if (id >= 0 && static_cast<size_t>(id) < scores.size() &&
        (best < 0 || scores[static_cast<size_t>(id)] > scores[static_cast<size_t>(best)]))
      best = id;
  if (best < 0) fail("lang_to_id: holds no token of the model");
  return best;
}

// The start token, and what tells language, task, and whether timestamps are wanted.
TokenIds WhisperWriter::beginning(const Tensor& features, const WhisperRequest& request) const {
  const std::string language = request.language.empty() ? language_ : request.language,
                    task = request.task.empty() ? task_ : request.task;
  TokenIds tokens{start_};
  if (task.empty() && language.empty()) tokens.insert(tokens.end(), forced_.begin(), forced_.end());
  std::optional<int64_t> id;
  if (!language.empty()) id = language_of(language);
  else if (!languages_.empty() && (tokens.size() == 1 || tokens[1] == -1)) id = detected_language(features);
  if (id && tokens.size() > 1) tokens[1] = *id;
  else if (id) tokens.push_back(*id);
  if (!task.empty()) {
    const auto found = tasks_.find(task);
    if (found == tasks_.end()) fail("task: {} is not a task of this model: transcribe or translate", quoted(task));
    tokens.push_back(found->second);
  } else if (!language.empty() && tasks_.contains("transcribe")) {
    tokens.push_back(tasks_.at("transcribe"));
  }
  if (!request.timestamps && no_timestamps_ && tokens.back() != *no_timestamps_) tokens.push_back(*no_timestamps_);
  else if (request.timestamps && tokens.back() == no_timestamps_) tokens.pop_back();
  std::erase(tokens, -1);
  return tokens;
}

// Timestamps come in pairs, do not fall, and are taken where together they are likelier than any text.
void WhisperWriter::process(const TokenIds& tokens, std::span<float> scores, size_t begin, int64_t end_of_text) const {
  const int64_t first = *no_timestamps_ + 1, count = static_cast<int64_t>(scores.size());
  if (first >= count) return;
  const auto forbid = [&](int64_t from, int64_t to) {
    for (int64_t i = std::max<int64_t>(from, 0); i < std::min(to, count); ++i) scores[static_cast<size_t>(i)] = kNever;
  };
  forbid(*no_timestamps_, first);
  const std::span<const int64_t> written(tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.end());
  const size_t n = written.size();
  const bool last = n >= 1 && written[n - 1] >= first, before_last = n < 2 || written[n - 2] >= first;
  if (last && before_last) forbid(first, count);
  else if (last) forbid(0, end_of_text);
  const auto latest = std::find_if(written.rbegin(), written.rend(), [&](int64_t id) { return id >= first; });
  if (latest != written.rend()) forbid(first, last && !before_last ? *latest : *latest + 1);
  if (n == 0) {
    forbid(0, first);
    if (max_initial_timestamp_) forbid(first + *max_initial_timestamp_ + 1, count);
  }
  const double likely = log_sum_exp(scores.subspan(static_cast<size_t>(first)));
  if (likely > *std::max_element(scores.begin(), scores.begin() + first)) forbid(0, first);
}

int64_t WhisperWriter::take(TokenIds tokens, const GenerationConfig& config, TokenIds& text) const {
  const int64_t first = no_timestamps_ ? *no_timestamps_ + 1 : std::numeric_limits<int64_t>::max();
  const auto is_filler = [&](int64_t id) {
    return id == config.pad_token_id ||
           std::find(config.eos_token_id.begin(), config.eos_token_id.end(), id) != config.eos_token_id.end();
  };
  while (!tokens.empty() && is_filler(tokens.back())) tokens.pop_back();
  // Two timestamps side by side end a segment; what is behind the last pair is read again.
  const auto stamp = [&](size_t i) { return tokens[i] >= first; };
  size_t pair = 0;  // behind the first one of the last pair
  for (size_t i = 0; i + 1 < tokens.size(); ++i)
    if (stamp(i) && stamp(i + 1)) pair = i + 1;
  const size_t n = tokens.size();
  const bool single = n >= 1 && stamp(n - 1) && (n < 2 || !stamp(n - 2));
  int64_t step = window_;
  if (pair > 0 && !(single && n >= 2)) {
    step = (tokens[pair - 1] - first) * 2;
    tokens.resize(pair + 1);
  }
  text.insert(text.end(), tokens.begin(), tokens.end());
  return step;
}

int64_t WhisperWriter::most_tokens() const { return model_.config().get_int("max_target_positions", 448); }

std::vector<TokenIds> WhisperWriter::write(const std::vector<Tensor>& features, const WhisperRequest& request) const {
  const NoGradient inference;
  struct Sound {
    TokenIds start;
    int64_t seek = 0;
  };
  std::vector<Sound> sounds;
  const int64_t positions = most_tokens();
  for (const Tensor& one : features) {
    const int64_t frames = one.dim(2);
    if (frames > window_ && !request.timestamps)
      fail("a sound of {} frames is longer than the model's window of {}; it needs timestamps", frames, window_);
    if (request.timestamps && !no_timestamps_)
      fail(
          "generation_config.json: no_timestamps_token_id is missing, so that there are no timestamps; sounds longer "
          "than the model's window need them, or chunk_length_s");
    TokenIds start = beginning(window_of(one, 0, window_), request);
    start.insert(start.begin(), request.prompt.begin(), request.prompt.end());
    sounds.push_back({std::move(start)});
  }
  std::vector<TokenIds> texts(features.size());
  if (request.keeps_language)
    for (size_t i = 0; i < sounds.size(); ++i)
      for (const auto& [name, id] : languages_)
        if (std::find(sounds[i].start.begin(), sounds[i].start.end(), id) != sounds[i].start.end())
          texts[i].push_back(id);
  for (;;) {
    // The next windows of the sounds that begin as the first that is not read to its end.
    std::vector<size_t> batch;
    std::vector<Tensor> windows;
    for (size_t i = 0; i < sounds.size(); ++i)
      if (sounds[i].seek < features[i].dim(2) && (batch.empty() || sounds[i].start == sounds[batch[0]].start)) {
        batch.push_back(i);
        windows.push_back(window_of(features[i], sounds[i].seek, window_));
      }
    if (batch.empty()) return texts;
    const TokenIds& start = sounds[batch[0]].start;
    const auto length = static_cast<int64_t>(start.size());
    GenerationConfig config = request.config;
    config.forced_decoder_ids.clear();  // they are in `start`
    if (!config.max_new_tokens && config.max_length)
      config.max_length = std::min(*config.max_length + length, positions);
    if (config.max_new_tokens && length + *config.max_new_tokens > positions)
      fail("max_new_tokens = {} and {} tokens at the beginning are more than the model's {} positions",
           *config.max_new_tokens, length, positions);
    const int64_t end_of_text = config.eos_token_id.empty() ? config.bos_token_id.value_or(0) : config.eos_token_id[0];
    GenerationOptions options;
    if (request.timestamps)
      options.process_logits = [&](const TokenIds& tokens, std::span<float> scores) {
        process(tokens, scores, start.size(), end_of_text);
      };
    TokenIds starts;
    for (size_t i = 0; i < batch.size(); ++i) starts.insert(starts.end(), start.begin(), start.end());
    const GenerationOutput output =
        generate(model_,
                 {{"input_features", windows.size() == 1 ? windows[0] : concatenate(windows, 0)},
                  {"decoder_input_ids", Tensor::from(starts, {static_cast<int64_t>(batch.size()), length})}},
                 config, options);
    for (size_t k = 0; k < batch.size(); ++k) {
      const TokenIds& row = output.sequences[k];
      const size_t i = batch[k];
      const int64_t frames = features[i].dim(2), step = take({row.begin() + length, row.end()}, config, texts[i]);
      sounds[i].seek += std::max<int64_t>(std::min(step, frames - sounds[i].seek), 1);
      if (step <= 0) sounds[i].seek = frames;  // the model does not get on
    }
  }
}

}  // namespace transom
