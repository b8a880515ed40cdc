// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/whisper/whisper_generation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "inputs/audio/whisper_languages.h"
#include "transom/ops.h"
#include "work/pipelines/audio/whisper/whisper_alignment.h"

namespace transom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kSecondsATimestamp = 0.02, kSecondsAFrame = 0.01;

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

// [[layer, head], ...]
std::vector<std::pair<size_t, size_t>> heads_of(const Json& json, const Model& model) {
  const auto found = json.find("alignment_heads");
  if (found == json.end() || found->is_null()) return {};
  const int64_t layers = model.config().get_int("decoder_layers", 4),
                heads = model.config().get_int("decoder_attention_heads", 6);
  std::vector<std::pair<size_t, size_t>> pairs;
  if (!found->is_array()) fail("generation_config.json: alignment_heads: expected a list of [layer, head]");
  for (const Json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() || !pair[1].is_number_integer() ||
        pair[0] < 0 || pair[0] >= layers || pair[1] < 0 || pair[1] >= heads)
      fail("generation_config.json: alignment_heads: expected [layer, head] of {} layers and {} heads, found {}",
           layers, heads, dump_json(pair));
    pairs.emplace_back(pair[0].get<size_t>(), pair[1].get<size_t>());
  }
  return pairs;
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
      source_(dynamic_cast<const SourceAttention*>(&model)),
      window_(2 * model.config().get_int("max_source_positions", 1500)),
      start_(id_of(generation, "decoder_start_token_id")
                 .value_or(model.config().get_int("decoder_start_token_id", 50257))),
      languages_(ids_of(generation, "lang_to_id")),
      tasks_(ids_of(generation, "task_to_id")),
      no_timestamps_(id_of(generation, "no_timestamps_token_id")),
      max_initial_timestamp_(id_of(generation, "max_initial_timestamp_index")),
      previous_mark_(id_of(generation, "prev_sot_token_id")),
      alignment_heads_(heads_of(generation, model)),
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
  if (languages_.empty()) fail("language: this model's generation_config.json has no lang_to_id");
  for (const std::string& token : {language, whisper_language_mark(language)})
    if (const auto found = languages_.find(token); found != languages_.end()) return found->second;
  fail("language: {} is not a language of this model", quoted(language));
}

bool WhisperWriter::detects_language(const WhisperRequest& request) const {
  if (languages_.empty() || !request.language.empty() || !language_.empty()) return false;
  const bool forced = request.task.empty() && task_.empty() && !forced_.empty();
  return !forced || forced_[0] == -1;
}

// The likeliest of the languages behind the start token, of each row.
std::vector<int64_t> WhisperWriter::detected_languages(const Tensor& read) const {
  const int64_t rows = read.dim(0);
  const Tensor starts = Tensor::from(std::vector<int64_t>(static_cast<size_t>(rows), start_), {rows, 1});
  const Tensor logits = source_
                            ? source_->seen(read, starts).logits
                            : model_.forward({{"input_features", read}, {"decoder_input_ids", starts}}).at("logits");
  std::vector<int64_t> ids;
  for (const auto& [name, id] : languages_) ids.push_back(id);
  return likeliest_languages(cast(logits, DType::kFloat32).to_vector<float>(), static_cast<size_t>(rows), ids);
}

// The start token, and what tells language, task, and whether timestamps are wanted.
TokenIds WhisperWriter::beginning(std::optional<int64_t> heard, const WhisperRequest& request) const {
  const std::string language = request.language.empty() ? language_ : request.language,
                    task = request.task.empty() ? task_ : request.task;
  TokenIds tokens{start_};
  if (task.empty() && language.empty()) tokens.insert(tokens.end(), forced_.begin(), forced_.end());
  const std::optional<int64_t> id = language.empty() ? heard : std::optional(language_of(language));
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

int64_t WhisperWriter::most_tokens() const { return model_.config().get_int("max_target_positions", 448); }

struct WhisperWriter::Reading {
  const WhisperSound& sound;
  WhisperTokens& said;
  TokenIds init;     // the start token, and what tells language, task and times
  TokenIds so_far;   // with condition_on_prev_tokens: what was said in the windows before
  int64_t seek = 0;  // the frame at which the next window begins
  bool sure = true;  // of what was said last, so that the next window may go on from it
  Tensor read;       // of the next window, where it is known: what the encoder made of it; a graph's: its features

  int64_t frames() const { return sound.features.dim(2); }
  bool done() const { return seek >= frames(); }
};

void WhisperWriter::check(const WhisperSound& sound, const WhisperRequest& request) const {
  const int64_t frames = sound.features.dim(2);
  if (frames > window_ && !request.timestamps)
    fail("a sound of {} frames is longer than the model's window of {}; it needs timestamps", frames, window_);
  if (request.timestamps && !no_timestamps_)
    fail(
        "generation_config.json: no_timestamps_token_id is missing, so that there are no timestamps; sounds longer "
        "than the model's window need them, or chunk_length_s");
  if (request.token_times && alignment_heads_.empty())
    fail("generation_config.json: alignment_heads is missing, so that there are no times of words");
  if (request.token_times && !source_)
    fail(
        "this model does not tell what its decoder sees, so that there are no times of words: expected the checkpoint "
        "itself in place of a graph");
}

// What stands for the windows in generate(), and in what else the model is asked of them.
Tensor WhisperWriter::states_of(std::vector<Reading*>& batch) const {
  std::vector<Tensor> unread, all;
  for (const Reading* one : batch)
    if (!one->read.defined()) unread.push_back(window_of(one->sound.features, one->seek, window_));
  if (!unread.empty()) {
    Tensor fresh = unread.size() == 1 ? unread[0] : concatenate(unread, 0);
    if (source_) {
      fresh = source_->encoder_outputs({{"input_features", fresh}});
      eval({fresh});
    }
    int64_t row = 0;
    if (unread.size() == batch.size()) return fresh;
    for (Reading* one : batch)
      if (!one->read.defined()) one->read = slice(fresh, 0, row, row + 1), ++row;
  }
  for (Reading* one : batch) all.push_back(std::exchange(one->read, {}));
  return all.size() == 1 ? all[0] : concatenate(all, 0);
}

// As text that came before: its mark, and the end of it that fits.
TokenIds WhisperWriter::beginning_of(const Reading& reading, const WhisperRequest& request, size_t& before) const {
  TokenIds tokens;
  const bool goes_on = request.condition_on_prev_tokens && reading.sure && !reading.so_far.empty();
  if (goes_on) {
    const auto most = static_cast<ptrdiff_t>(std::max<int64_t>(most_tokens() / 2 - 1, 1));
    if (request.prompt_before_all) tokens = request.prompt;
    else if (const auto mark = previous_mark_ ? previous_mark_ : request.previous_mark) tokens.push_back(*mark);
    const TokenIds& text = reading.so_far;
    tokens.insert(tokens.end(), text.end() - std::min(most, static_cast<ptrdiff_t>(text.size())), text.end());
  } else {
    tokens = request.prompt;
  }
  before = tokens.size();
  tokens.insert(tokens.end(), reading.init.begin(), reading.init.end());
  return tokens;
}

GenerationConfig WhisperWriter::config_of(const WhisperRequest& request, int64_t length) const {
  const int64_t positions = most_tokens();
  GenerationConfig config = request.config;
  config.forced_decoder_ids.clear();  // they are in the tokens that texts begin with
  if (!config.max_new_tokens && config.max_length) config.max_length = std::min(*config.max_length + length, positions);
  if (config.max_new_tokens && request.room_by_window)
    config.max_new_tokens = std::max<int64_t>(std::min(*config.max_new_tokens, positions - length), 1);
  if (config.max_new_tokens && length + *config.max_new_tokens > positions)
    fail("max_new_tokens = {} and {} tokens at the beginning are more than the model's {} positions",
         *config.max_new_tokens, length, positions);
  return config;
}

std::vector<float> WhisperWriter::times_of(const Reading& reading, const Tensor& states, const TokenIds& start,
                                           const TokenIds& tokens) const {
  std::vector<float> times(tokens.size(), 0);
  const auto offset = static_cast<float>(static_cast<double>(reading.seek) * kSecondsAFrame);
  if (tokens.size() > 1) {
    // The last token, which ends the text, is said with the one before it.
    const auto count = static_cast<int64_t>(tokens.size()) - 1, begin = static_cast<int64_t>(start.size());
    TokenIds text = start;
    text.insert(text.end(), tokens.begin(), tokens.end() - 1);
    const SourceAttention::Seen seen =
        source_->seen(states, Tensor::from(text, {1, static_cast<int64_t>(text.size())}));
    const int64_t frames = std::min((reading.sound.frames - reading.seek) / 2, positions());
    std::vector<HeadAttention> heads;
    for (const auto& [layer, head] : alignment_heads_) {
      if (frames <= 0) break;
      const auto h = static_cast<int64_t>(head);
      const Tensor rows = slice(slice(seen.weights.at(layer), 1, h, h + 1), 2, begin, begin + count);
      heads.push_back(slice(rows, 3, 0, frames).to_vector<float>());
    }
    const std::vector<int64_t> found =
        token_frames(std::move(heads), count, frames, model_.config().get_int("median_filter_width", 7));
    for (size_t i = 0; i < times.size(); ++i) {
      const int64_t frame = found[std::min(i, found.size() - 1)];
      times[i] = static_cast<float>(static_cast<double>(frame) * kSecondsATimestamp);
    }
  }
  for (float& time : times) time += offset;
  return times;
}

void WhisperWriter::take(Reading& reading, const WhisperAttempt& attempt, const WhisperRequest& request) const {
  const int64_t first = no_timestamps_ ? *no_timestamps_ + 1 : std::numeric_limits<int64_t>::max();
  const TokenIds& ends = request.config.eos_token_id;
  TokenIds tokens = attempt.tokens;
  while (!tokens.empty() && (tokens.back() == request.config.pad_token_id ||
                             std::find(ends.begin(), ends.end(), tokens.back()) != ends.end()))
    tokens.pop_back();
  const auto stamp = [&](size_t i) { return tokens[i] >= first; };
  const size_t n = tokens.size();
  const double offset = static_cast<double>(reading.seek) * kSecondsAFrame;
  const int64_t left = std::min(window_, reading.frames() - reading.seek);
  const bool single = n >= 2 && stamp(n - 1) && !stamp(n - 2);
  // Two timestamps side by side end a segment; what is behind the last pair is read again.
  std::vector<size_t> bounds;
  for (size_t i = 0; i + 1 < n; ++i)
    if (stamp(i) && stamp(i + 1)) bounds.push_back(i + 1);
  int64_t step = left;
  const bool cut = !bounds.empty();
  if (cut && single) bounds.push_back(n);
  else if (cut) step = (tokens[bounds.back() - 1] - first) * 2, bounds.back() += 1;
  else bounds.push_back(n);
  const auto at = [&](int64_t token) { return offset + static_cast<double>(token - first) * kSecondsATimestamp; };
  size_t begin = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const size_t end = bounds[i];
    WhisperSegmentTokens segment{
        .tokens = {tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.begin() + static_cast<ptrdiff_t>(end)},
        .begin = offset,
        .end = offset + std::floor(static_cast<double>(left) / 2) * kSecondsATimestamp,
        .seek = offset,
        .measures = attempt.measures};
    const bool ends_twice = cut && !single && i + 1 == bounds.size();
    if (cut) {
      segment.begin = at(segment.tokens.front());
      segment.end = at(segment.tokens[segment.tokens.size() - (ends_twice ? 2 : 1)]);
    } else {
      const auto last = std::find_if(tokens.rbegin(), tokens.rend(), [&](int64_t id) { return id >= first; });
      if (last != tokens.rend() && *last != first) segment.end = at(*last);
    }
    if (request.condition_on_prev_tokens) {
      const bool drops = segment.tokens.size() > 2 && segment.tokens[segment.tokens.size() - 2] >= first;
      reading.so_far.insert(reading.so_far.end(), segment.tokens.begin(), segment.tokens.end() - (drops ? 1 : 0));
    }
    if (request.segments && !segment.tokens.empty()) reading.said.segments.push_back(std::move(segment));
    begin = end;
  }
  reading.said.tokens.insert(reading.said.tokens.end(), tokens.begin(),
                             tokens.begin() + static_cast<ptrdiff_t>(bounds.back()));
  reading.seek += std::max<int64_t>(std::min(step, left), 1);
  if (step <= 0) reading.seek = reading.frames();  // the model does not get on
}

// The sounds before their first windows. What is written of them goes to `said`.
std::vector<WhisperWriter::Reading> WhisperWriter::readings_of(const std::vector<WhisperSound>& sounds,
                                                               const WhisperRequest& request,
                                                               std::vector<WhisperTokens>& said) const {
  std::vector<Reading> readings;
  readings.reserve(sounds.size());
  for (size_t i = 0; i < sounds.size(); ++i) {
    check(sounds[i], request);
    readings.push_back(Reading{.sound = sounds[i], .said = said[i]});
  }
  std::vector<int64_t> heard;
  if (detects_language(request) && !readings.empty()) {
    std::vector<Reading*> all;
    for (Reading& reading : readings) all.push_back(&reading);
    const Tensor states = states_of(all);
    heard = detected_languages(states);
    for (size_t i = 0; i < all.size(); ++i)
      all[i]->read = slice(states, 0, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1);
  }
  for (size_t i = 0; i < sounds.size(); ++i) {
    Reading& reading = readings[i];
    reading.init = beginning(heard.empty() ? std::nullopt : std::optional(heard[i]), request);
    // A prompt is what was said before the first window.
    if (request.condition_on_prev_tokens && !request.prompt_before_all && !request.prompt.empty())
      reading.so_far.assign(request.prompt.begin() + 1, request.prompt.end());
    if (!request.keeps_language) continue;
    for (const auto& [name, id] : languages_)
      if (std::find(reading.init.begin(), reading.init.end(), id) != reading.init.end()) {
        said[i].tokens.push_back(id);
        if (request.token_times) said[i].times.push_back(0);
      }
  }
  return readings;
}

std::vector<WhisperTokens> WhisperWriter::write(const std::vector<WhisperSound>& sounds,
                                                const WhisperRequest& request) const {
  const NoGradient inference;
  std::vector<WhisperTokens> said(sounds.size());
  std::vector<Reading> readings = readings_of(sounds, request, said);
  const int64_t end_of_text =
      request.config.eos_token_id.empty() ? request.config.bos_token_id.value_or(0) : request.config.eos_token_id[0];
  for (;;) {
    // The next windows of the sounds that begin as the first that is not read to its end.
    std::vector<Reading*> batch;
    TokenIds start;
    size_t before = 0;
    for (Reading& reading : readings) {
      if (reading.done()) continue;
      size_t own = 0;
      TokenIds tokens = beginning_of(reading, request, own);
      if (!batch.empty() && tokens != start) continue;
      batch.push_back(&reading);
      start = std::move(tokens), before = own;
    }
    if (batch.empty()) return said;
    const Tensor states = states_of(batch);
    const WhisperWindows windows{.model = model_,
                                 .source = source_,
                                 .inputs = {{source_ ? "encoder_outputs" : "input_features", states}},
                                 .start = start,
                                 .before = before,
                                 .config = config_of(request, static_cast<int64_t>(start.size())),
                                 .no_speech_token = no_timestamps_ ? std::optional(*no_timestamps_ - 1) : std::nullopt,
                                 .process = !request.timestamps
                                                ? std::function<void(const TokenIds&, std::span<float>)>()
                                                : [&](const TokenIds& tokens, std::span<float> scores) {
                                                    process(tokens, scores, start.size(), end_of_text);
                                                  }};
    const std::vector<WhisperAttempt> attempts = whisper_attempts(windows, request.fallbacks, request.segments);
    for (size_t k = 0; k < batch.size(); ++k) {
      Reading& reading = *batch[k];
      reading.sure = attempts[k].measures.temperature < 0.5;
      if (attempts[k].skip) {
        reading.seek += std::min(window_, reading.frames() - reading.seek);
        continue;
      }
      std::vector<float> times;
      if (request.token_times) {
        const auto row = static_cast<int64_t>(k);
        times = times_of(reading, slice(states, 0, row, row + 1), start, attempts[k].tokens);
      }
      const size_t kept = reading.said.tokens.size();
      take(reading, attempts[k], request);
      if (request.token_times)
        reading.said.times.insert(reading.said.times.end(), times.begin(),
                                  times.begin() + static_cast<ptrdiff_t>(reading.said.tokens.size() - kept));
    }
  }
}

}  // namespace transom
