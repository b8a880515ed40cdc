// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/graph_speech.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "work/pipelines/audio/phonemes.h"
#include "work/pipelines/audio/voices.h"
#include "work/pipelines/onnx/graph_model.h"

namespace transom {
namespace {

// The bytes of the UTF-8 character at a place.
size_t bytes_of_character(std::string_view text, size_t place) {
  const auto first = static_cast<unsigned char>(text[place]);
  const size_t count = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return std::min(count, text.size() - place);
}

// The numbers of phonemes: "vocab" of config.json or vocab.json, or the vocabulary of tokenizer.json.
class PhonemeTable {
 public:
  explicit PhonemeTable(const fs::path& folder) {
    Json vocabulary;
    for (const char* name : {"config.json", "vocab.json", "tokenizer.json"}) {
      const fs::path path = folder / name;
      if (!vocabulary.is_null() || !file_exists(path)) continue;
      const Json json = read_json(path);
      if (json.contains("vocab")) vocabulary = json["vocab"];
      else if (json.contains("model") && json["model"].is_object() && json["model"].contains("vocab"))
        vocabulary = json["model"]["vocab"];
    }
    if (!vocabulary.is_object())
      fail("{}: expected the numbers of phonemes, \"vocab\" of config.json, vocab.json or tokenizer.json",
           folder.string());
    for (const auto& [phoneme, number] : vocabulary.items()) {
      if (!number.is_number_integer()) fail("{}: vocab: expected a number for {}", folder.string(), quoted(phoneme));
      numbers_.emplace(phoneme, number.get<int64_t>());
    }
  }

  // Those that the table has; others are left out, as Kokoro's own programs do.
  std::vector<int64_t> ids(std::string_view phonemes) const {
    std::vector<int64_t> ids;
    for (size_t place = 0; place < phonemes.size();) {
      const size_t count = bytes_of_character(phonemes, place);
      if (const auto found = numbers_.find(phonemes.substr(place, count)); found != numbers_.end())
        ids.push_back(found->second);
      place += count;
    }
    return ids;
  }

 private:
  std::map<std::string, int64_t, std::less<>> numbers_;
};

// Phonemes in pieces of so many tokens as the model takes, cut behind punctuation, or where there is none anywhere.
std::vector<std::vector<int64_t>> pieces_of(const PhonemeTable& table, const std::string& phonemes, size_t most) {
  std::vector<std::vector<int64_t>> pieces(1);
  const auto take = [&](std::string_view part) {
    std::vector<int64_t> ids = table.ids(part);
    if (pieces.back().size() + ids.size() > most && !pieces.back().empty()) pieces.emplace_back();
    for (size_t begin = 0; begin < ids.size(); begin += most) {
      const size_t end = std::min(begin + most, ids.size());
      if (begin > 0) pieces.emplace_back();
      pieces.back().insert(pieces.back().end(), ids.begin() + static_cast<std::ptrdiff_t>(begin),
                           ids.begin() + static_cast<std::ptrdiff_t>(end));
    }
  };
  size_t begin = 0;
  for (size_t place = 0; place < phonemes.size(); ++place) {
    if (std::string_view(",.!?;:").find(phonemes[place]) == std::string_view::npos) continue;
    take(std::string_view(phonemes).substr(begin, place + 1 - begin));
    begin = place + 1;
  }
  take(std::string_view(phonemes).substr(begin));
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

// What each input of the graph is, by its type and rank: exporters give them other names.
struct SpeechInputs {
  std::string tokens, style, speed;
  int64_t width = 256;  // of a voice

  explicit SpeechInputs(const GraphModel& model) {
    for (const onnx::ValueInfo& input : model.graph().inputs) {
      const size_t rank = input.shape ? input.shape->size() : 0;
      std::string* name = rank == 2 && onnx::is_integer(input.type) ? &tokens
                          : rank == 2                               ? &style
                          : rank == 1                               ? &speed
                                                                    : nullptr;
      if (!name || !name->empty())
        fail("{}: input {}: expected tokens [1, n], a style [1, width] and a speed [1], as Kokoro's graph takes",
             model.where(), quoted(input.name));
      *name = input.name;
      if (name == &style) width = GraphModel::extent(input, 1);
    }
    if (tokens.empty() || style.empty() || speed.empty() || width < 1 || width > 1 << 16)
      fail("{}: expected the inputs tokens [1, n], style [1, width] and speed [1], as Kokoro's graph has",
           model.where());
  }
};

// What espeak-ng calls the language of a voice: its first letter says which.
std::string language_of(const std::string& voice) {
  static const std::map<char, const char*> languages{{'a', "en-us"}, {'b', "en-gb"}, {'e', "es"},
                                                     {'f', "fr-fr"}, {'h', "hi"},    {'i', "it"},
                                                     {'j', "ja"},    {'p', "pt-br"}, {'z', "cmn"}};
  const auto found = voice.size() > 2 && voice[2] == '_' ? languages.find(voice[0]) : languages.end();
  return found == languages.end() ? "en-us" : found->second;
}

class GraphSpeech : public Pipeline {
 public:
  GraphSpeech(GraphModel model, const fs::path& folder)
      : model_(std::move(model)), inputs_(model_), phonemes_(folder), voices_(folder) {
    rate_ = model_.config().get_int("sampling_rate", 24000);
    if (rate_ < 1 || rate_ > 768000) fail("{}: sampling_rate: found {}", model_.config().where(), rate_);
  }

  TaskParameters parameters() const override { return speech_parameters({"voice", "speed", "language", "phonemes"}); }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::string voice = text_option(options, "voice", voices_.names().front());
    const std::vector<float> table = voices_.table(voice, inputs_.width);
    const double speed = speed_option(options);
    const bool given = flag_option(options, "phonemes", false);
    const std::string language = text_option(options, "language", language_of(voice));
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const std::string& text = spoken_text(input);
      results.emplace_back(speech_of(given ? text : phonemes_of(text, language), table, speed));
    }
    return results;
  }

 private:
  Waveform speech_of(const std::string& phonemes, const std::vector<float>& table, double speed) const {
    const size_t width = static_cast<size_t>(inputs_.width), rows = table.size() / width;
    const std::vector<std::vector<int64_t>> pieces = pieces_of(phonemes_, phonemes, std::max<size_t>(rows, 1));
    if (pieces.empty()) fail("the text: no phoneme of it is one that the model knows: {}", quoted(phonemes));
    Waveform sound{.sampling_rate = rate_, .channels = 1, .samples = {}};
    for (const std::vector<int64_t>& piece : pieces) {
      std::vector<int64_t> tokens{0};  // silence around them
      tokens.insert(tokens.end(), piece.begin(), piece.end());
      tokens.push_back(0);
      const size_t row = std::min(piece.size(), rows) - 1;
      const std::vector<float> style(table.begin() + static_cast<std::ptrdiff_t>(row * width),
                                     table.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
      const std::vector<FeatureArray> outputs =
          model_.run({{inputs_.tokens, Tensor::from(tokens, {1, static_cast<int64_t>(tokens.size())})},
                      {inputs_.style, Tensor::from(style, {1, inputs_.width})},
                      {inputs_.speed, Tensor::from(std::vector<float>{static_cast<float>(speed)}, {1})}});
      if (outputs.empty()) fail("{}: the graph has no output", model_.where());
      for (const float sample : outputs[0].values) {
        if (!std::isfinite(sample)) fail("{}: the graph gives samples that are no numbers", model_.where());
        sound.samples.push_back(std::clamp(sample, -1.0f, 1.0f));
      }
    }
    return sound;
  }

  GraphModel model_;
  SpeechInputs inputs_;
  PhonemeTable phonemes_;
  Voices voices_;
  int64_t rate_ = 24000;
};

}  // namespace

std::unique_ptr<Pipeline> load_graph_speech(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<GraphSpeech>(GraphModel::load(directory, options), directory_of_model(directory));
}

}  // namespace transom
