// SPDX-License-Identifier: Apache-2.0
// Speech to text with Whisper. Long sounds are read segment after segment, or, with chunk_length_s, in chunks that
// overlap.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/audio/whisper_languages.h"
#include "work/pipelines/audio/audio_chunks.h"
#include "work/pipelines/audio/audio_model.h"
#include "work/pipelines/audio/whisper/whisper_generation.h"
#include "work/pipelines/audio/whisper/whisper_recognition.h"
#include "work/pipelines/audio/whisper/whisper_text.h"
#include "work/pipelines/generation/generation_model.h"

namespace transom {
namespace {

// As Transformers' pipeline has it.
const Json& defaults() {
  static const Json values{{"max_new_tokens", 256}, {"num_beams", 5}};
  return values;
}

// Takes an option, or else a field of "generate_kwargs", that is not one of generate()'s; null where it is not given.
Json taken(TaskOptions& options, const char* name) {
  Json value;
  if (is_given(options, name)) value = json_of_value(*options.find(name));
  options.erase(name);
  Json kwargs = json_option(options, "generate_kwargs");
  if (!kwargs.is_object() || !kwargs.contains(name)) return value;
  if (!kwargs[name].is_null()) value = kwargs[name];
  kwargs.erase(name);
  options.set("generate_kwargs", TaskOptions::JsonText{dump_json(kwargs)});
  return value;
}

std::string taken_text(TaskOptions& options, const char* name) {
  const Json value = taken(options, name);
  if (!value.is_null() && !value.is_string())
    fail("parameter {}: expected a string, found {}", name, quoted(dump_json(value)));
  return value.is_null() ? "" : value.get<std::string>();
}

bool taken_flag(TaskOptions& options, const char* name) {
  const Json value = taken(options, name);
  if (!value.is_null() && !value.is_boolean())
    fail("parameter {}: expected true or false, found {}", name, quoted(dump_json(value)));
  return value == true;
}

std::vector<double> taken_numbers(TaskOptions& options, const char* name) {
  Json value = taken(options, name);
  if (value.is_null()) return {};
  if (!value.is_array()) value = Json::array({value});
  std::vector<double> numbers;
  for (const Json& each : value) {
    if (!each.is_number()) fail("parameter {}: expected numbers, found {}", name, quoted(dump_json(value)));
    numbers.push_back(each.get<double>());
  }
  return numbers;
}

std::optional<double> taken_number(TaskOptions& options, const char* name) {
  const std::vector<double> numbers = taken_numbers(options, name);
  if (numbers.size() > 1) fail("parameter {}: expected a number, found {}", name, numbers);
  return numbers.empty() ? std::nullopt : std::optional(numbers[0]);
}

// When a text is written again, and when it is not written at all.
WhisperFallbacks fallbacks_of(TaskOptions& options) {
  WhisperFallbacks fallbacks{.temperatures = taken_numbers(options, "temperature"),
                             .compression_ratio = taken_number(options, "compression_ratio_threshold"),
                             .logprob = taken_number(options, "logprob_threshold"),
                             .no_speech = taken_number(options, "no_speech_threshold")};
  for (const double temperature : fallbacks.temperatures)
    if (!(temperature >= 0 && temperature <= 100))
      fail("parameter temperature: expected numbers from 0 to 100, found {}", temperature);
  if (fallbacks.no_speech && !fallbacks.logprob)
    fail("parameter no_speech_threshold: has no effect without logprob_threshold, below which a text is not sure");
  return fallbacks;
}

class WhisperRecognition : public Pipeline {
 public:
  WhisperRecognition(GenerationModel model, std::unique_ptr<FeatureExtractor> extractor, const Json& generation)
      : model_(std::move(model)), extractor_(std::move(extractor)), writer_(*model_.model, generation) {}

  TaskParameters parameters() const override { return whisper_recognition_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // With return_timestamps or return_language the chunks beside the text.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    return answers_to_sounds(inputs, extractor_->sampling_rate(), batch_size_of(options),
                             [&](const std::vector<Sound>& sounds) { return texts_of(sounds, options); });
  }

 private:
  // What the options say; `unit` of the times: none, "segment" or "word".
  struct Wishes {
    WhisperRequest request;
    std::string unit;
    bool language = false;
    bool words() const { return unit == "word"; }
    bool times() const { return !unit.empty(); }
  };

  Wishes wishes_of(TaskOptions& options) const {
    Wishes wishes;
    WhisperRequest& request = wishes.request;
    request.language = taken_text(options, "language");
    request.task = taken_text(options, "task");
    request.previous_mark = model_.tokenizer.token_to_id("<|startofprev|>");
    request.prompt = prompt_of(taken_text(options, "prompt"));
    if (const std::vector<double> ids = taken_numbers(options, "prompt_ids"); !ids.empty()) {
      if (!request.prompt.empty()) fail("parameter prompt_ids: expected them or a prompt, found both");
      request.prompt = prompt_of_ids(ids);
    }
    request.condition_on_prev_tokens = taken_flag(options, "condition_on_prev_tokens");
    const std::string conditions = taken_text(options, "prompt_condition_type");
    if (!conditions.empty() && conditions != "first-segment" && conditions != "all-segments")
      fail("parameter prompt_condition_type: expected first-segment or all-segments, found {}", quoted(conditions));
    request.prompt_before_all = conditions == "all-segments";
    if (request.prompt_before_all && !request.condition_on_prev_tokens)
      fail("parameter prompt_condition_type: all-segments has no effect without condition_on_prev_tokens");
    request.fallbacks = fallbacks_of(options);
    request.segments = taken_flag(options, "return_segments");
    wishes.language = request.keeps_language = flag_option(options, "return_language", false);
    if (const TaskOptions::Value* given = options.find("return_timestamps"); is_given(options, "return_timestamps")) {
      const auto* flag = std::get_if<bool>(given);
      const auto* word = std::get_if<std::string>(given);
      if (!flag && !(word && *word == "word"))
        fail("parameter return_timestamps: {}: this model gives those of segments (true) and words (\"word\")",
             quoted(shown_value(*given)));
      if (word || *flag) wishes.unit = word ? *word : "segment";
    }
    if (wishes.unit.empty() && writer_.wants_timestamps()) wishes.unit = "segment";
    request.token_times = wishes.words();
    Json usual = defaults();
    if (!request.prompt.empty()) {
      // Beside the prompt there are the tokens that tell language, task and times.
      const int64_t room = writer_.most_tokens() - static_cast<int64_t>(request.prompt.size()) - 4;
      usual["max_new_tokens"] = std::clamp<int64_t>(room, 1, usual["max_new_tokens"].get<int64_t>());
    }
    request.room_by_window = request.condition_on_prev_tokens;
    request.config = model_.config_for(options, usual);
    if (request.config.num_return_sequences != 1) fail("num_return_sequences: expected 1, as one text is returned");
    return wishes;
  }

  std::vector<TaskResult> texts_of(const std::vector<Sound>& sounds, TaskOptions options) const {
    Wishes wishes = wishes_of(options);
    std::vector<std::vector<WhisperPiece>> pieces(sounds.size());
    std::vector<std::vector<WhisperSegmentTokens>> segments(sounds.size());
    const auto chunks = chunk_options(options);
    if (chunks && wishes.request.segments) fail("parameter return_segments: has no effect with chunk_length_s");
    if (chunks) write_chunks(sounds, *chunks, wishes, batch_size_of(options), pieces);
    else write_whole(sounds, wishes, batch_size_of(options), pieces, segments);
    const double seconds =
        static_cast<double>(extractor_->fixed_length()) / static_cast<double>(extractor_->sampling_rate());
    const std::string& code = wishes.request.language;
    const WhisperTextOptions form{.timestamps = wishes.times(),
                                  .words = wishes.words(),
                                  .language = whisper_language(whisper_language_code(code)),
                                  .time_precision = seconds / static_cast<double>(writer_.positions()),
                                  .positions = 1500};
    std::vector<TaskResult> results;
    for (size_t i = 0; i < sounds.size(); ++i) {
      Transcription result = result_of(whisper_segments(model_.tokenizer, pieces[i], form), wishes);
      for (const WhisperSegmentTokens& each : segments[i]) result.segments.push_back(told(each));
      results.emplace_back(std::move(result));
    }
    return results;
  }

  // Each sound in chunks that overlap.
  void write_chunks(const std::vector<Sound>& sounds, const ChunkOptions& chunks, Wishes& wishes, int64_t batch_size,
                    std::vector<std::vector<WhisperPiece>>& pieces) const {
    std::vector<WhisperSound> heard;
    std::vector<WhisperPiece*> places;
    for (size_t i = 0; i < sounds.size(); ++i) {
      const double rate = static_cast<double>(sounds[i].sampling_rate);
      const std::vector<SoundChunk> parts = cut(sounds[i], chunks, 1);
      pieces[i].reserve(parts.size());
      for (const SoundChunk& chunk : parts) {
        heard.push_back(heard_of((*extractor_)(std::span(&chunk.sound, 1)), chunk.sound));
        places.push_back(&pieces[i].emplace_back(
            WhisperPiece{.tokens = {},
                         .stride = WhisperPiece::Stride{static_cast<double>(chunk.sound.samples.size()) / rate,
                                                        static_cast<double>(chunk.left) / rate,
                                                        static_cast<double>(chunk.right) / rate}}));
      }
    }
    wishes.request.timestamps = wishes.times();
    write(heard, wishes.request, batch_size, [&](size_t k, WhisperTokens said) {
      places[k]->tokens = std::move(said.tokens), places[k]->times = std::move(said.times);
    });
  }

  // Sounds that are longer than the window need timestamps; the shorter ones are written without.
  void write_whole(const std::vector<Sound>& sounds, Wishes& wishes, int64_t batch_size,
                   std::vector<std::vector<WhisperPiece>>& pieces,
                   std::vector<std::vector<WhisperSegmentTokens>>& segments) const {
    std::vector<WhisperSound> heard[2];
    std::vector<size_t> places[2];
    for (size_t i = 0; i < sounds.size(); ++i) {
      const AudioFeatures whole = extractor_->whole(sounds[i]);
      const bool longer = whole.shape[2] > writer_.window();
      heard[longer].push_back(heard_of(whole, sounds[i]));
      places[longer].push_back(i);
    }
    for (const bool longer : {false, true}) {
      wishes.request.timestamps = wishes.times() || longer;
      write(heard[longer], wishes.request, batch_size, [&](size_t k, WhisperTokens said) {
        const size_t i = places[longer][k];
        pieces[i].push_back({.tokens = std::move(said.tokens), .stride = {}, .times = std::move(said.times)});
        segments[i] = std::move(said.segments);
      });
    }
  }

  // As WhisperProcessor.get_prompt_ids() makes it, cut to its end where it is longer than half of the decoder's places.
  TokenIds prompt_of(const std::string& prompt) const {
    const size_t first = prompt.find_first_not_of(" \t\r\n");
    if (first == prompt.npos) return {};
    const std::string text = prompt.substr(first, prompt.find_last_not_of(" \t\r\n") + 1 - first);
    const auto mark = model_.tokenizer.token_to_id("<|startofprev|>");
    if (!mark) fail("parameter prompt: the tokenizer of this model has no <|startofprev|>");
    TokenIds ids = model_.tokenizer.encode(" " + text, std::nullopt, {.add_special_tokens = false}).ids;
    const std::vector<int64_t> special = model_.tokenizer.all_special_ids();
    for (const int64_t id : ids)
      if (std::find(special.begin(), special.end(), id) != special.end())
        fail("parameter prompt: expected text, found the special token {}", quoted(model_.tokenizer.decode({id})));
    const auto most = static_cast<size_t>(std::max<int64_t>(writer_.most_tokens() / 2 - 1, 1));
    if (ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(most));
    ids.insert(ids.begin(), *mark);
    return ids;
  }

  // The ids that WhisperProcessor.get_prompt_ids() gives, the mark among them or not.
  TokenIds prompt_of_ids(const std::vector<double>& numbers) const {
    const auto mark = model_.tokenizer.token_to_id("<|startofprev|>");
    if (!mark) fail("parameter prompt_ids: the tokenizer of this model has no <|startofprev|>");
    TokenIds ids;
    for (const double number : numbers) {
      if (!(number >= 0 && number < static_cast<double>(model_.tokenizer.vocab_size())) || number != std::floor(number))
        fail("parameter prompt_ids: expected ids of tokens, found {}", number);
      ids.push_back(static_cast<int64_t>(number));
    }
    if (ids.front() != *mark) ids.insert(ids.begin(), *mark);
    return ids;
  }

  WhisperSound heard_of(const AudioFeatures& features, const Sound& sound) const {
    const int64_t hop = std::max<int64_t>(extractor_->fixed_length() / writer_.window(), 1);
    const auto samples = static_cast<int64_t>(sound.samples.size());
    return {Tensor::from(features.values, features.shape), std::min((samples + hop - 1) / hop, features.shape[2])};
  }

  // The tokens of each sound, `batch_size` of them at a time.
  template <typename Take>
  void write(const std::vector<WhisperSound>& sounds, const WhisperRequest& request, int64_t batch_size,
             const Take& take) const {
    for (size_t first = 0; first < sounds.size(); first += static_cast<size_t>(batch_size)) {
      const size_t end = std::min(sounds.size(), first + static_cast<size_t>(batch_size));
      std::vector<WhisperTokens> said = writer_.write(
          {sounds.begin() + static_cast<ptrdiff_t>(first), sounds.begin() + static_cast<ptrdiff_t>(end)}, request);
      for (size_t i = first; i < end; ++i) take(i, std::move(said[i - first]));
    }
  }

  TranscribedSegment told(const WhisperSegmentTokens& segment) const {
    TranscribedSegment result;
    TokenIds text = segment.tokens;
    if (const auto first = writer_.first_timestamp()) std::erase_if(text, [&](int64_t id) { return id >= *first; });
    result.text = model_.tokenizer.decode(text, true);
    result.begin = segment.begin, result.end = segment.end, result.seek = segment.seek;
    result.tokens = segment.tokens;
    result.temperature = segment.measures.temperature;
    result.avg_logprob = segment.measures.avg_logprob;
    result.compression_ratio = segment.measures.compression_ratio;
    result.no_speech_prob = segment.measures.no_speech_prob;
    return result;
  }

  static Transcription result_of(const std::vector<WhisperSegment>& segments, const Wishes& wishes) {
    Transcription result{
        .text = {}, .chunks = {}, .has_times = wishes.times(), .has_languages = wishes.language, .segments = {}};
    for (const WhisperSegment& segment : segments) {
      result.text += segment.text;
      if (wishes.words())
        for (const WhisperSegment::Word& word : segment.words)
          result.chunks.push_back({word.text, word.begin, word.end, segment.language});
      else if (wishes.times() || wishes.language)
        result.chunks.push_back({segment.text, segment.begin, segment.end, segment.language});
    }
    return result;
  }

  GenerationModel model_;
  std::unique_ptr<FeatureExtractor> extractor_;
  WhisperWriter writer_;
};

}  // namespace

TaskParameters whisper_recognition_parameters() {
  using Type = TaskParameter::Type;
  TaskParameters all = generation_parameters({
      {"chunk_length_s", Type::kNumber, "split sounds into chunks of so many seconds"},
      {"stride_length_s", Type::kNumbers, "seconds that two chunks share: one number, or one for each side",
       "chunk_length_s / 6"},
      {"return_timestamps", Type::kFlagOrWord, "return when each segment or word is said", "", {"word"}},
      {"return_language", Type::kFlag, "return the language of each segment", "false"},
      {"return_segments", Type::kFlag, "return what was said in one go, and how sure the model was of it", "false"},
      {"language", Type::kText, "the language that is spoken (default: detected)"},
      {"prompt", Type::kText, "what was said before: names, and how words are spelled"},
      {"prompt_ids", Type::kNumbers, "the same as ids of tokens"},
      {"prompt_condition_type",
       Type::kText,
       "with condition_on_prev_tokens: where the prompt stands",
       "first-segment",
       {"first-segment", "all-segments"}},
      {"condition_on_prev_tokens", Type::kFlag, "of long sounds: each window goes on from the text before", "false"},
      {"temperature", Type::kNumbers, "0, or that of sampling; of several the next one where a threshold says so"},
      {"compression_ratio_threshold", Type::kNumber, "a text that repeats itself more is written again"},
      {"logprob_threshold", Type::kNumber, "a text with a lower mean of log probabilities is written again"},
      {"no_speech_threshold", Type::kNumber,
       "such a text is left out where the chance of silence is higher; with logprob_threshold"},
      {"task",
       Type::kText,
       "write what is said, or translate it to English",
       "transcribe",
       {"transcribe", "translate"}},
  });
  // One of generate()'s own has the name of a list of them here.
  std::erase_if(all, [](const TaskParameter& each) {
    return each.name == "temperature" && each.type == TaskParameter::Type::kGeneration;
  });
  return all;
}

std::unique_ptr<Pipeline> make_whisper_recognition(const std::string& directory, const LoadOptions& options) {
  const fs::path folder(directory), own = folder / "generation_config.json";
  return std::make_unique<WhisperRecognition>(GenerationModel::load(directory, options),
                                              FeatureExtractor::read(directory),
                                              read_json(path_exists(own) ? own : folder / "config.json"));
}

}  // namespace transom
