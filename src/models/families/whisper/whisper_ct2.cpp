// SPDX-License-Identifier: Apache-2.0
// Whisper as CTranslate2 writes it: projections of queries, keys and values lie in one matrix, and what Transformers
// keeps in configurations follows from shapes, tokens and the file's own config.json.
#include <simdjson.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/ctranslate2/ct2_spec.h"

namespace transom {
namespace {

constexpr int64_t kMostLayers = 1024;

int64_t ct2_layers(const Ct2File& file, const std::string& stack) {
  int64_t layers = 0;
  while (layers < kMostLayers && file.has(fmt::format("{}/layer_{}/ffn/linear_0/weight", stack, layers))) ++layers;
  if (layers == 0 || layers == kMostLayers)
    fail("{}: {}: expected 1 to {} layers", file.where(), stack, kMostLayers - 1);
  return layers;
}

// The ids of the tokens that a tokenizer.json adds to its vocabulary, which may be longer than other JSON is let be.
std::map<std::string, int64_t> ct2_special_tokens(const fs::path& path) {
  if (!path_exists(path))
    fail("{}: is missing: the model's tokens are read from it (faster-whisper's directories have it)", path.string());
  const std::string text = read_file(path, uint64_t{1} << 28);
  simdjson::dom::parser parser;
  simdjson::dom::array tokens;
  if (parser.parse(text.data(), text.size()).at_key("added_tokens").get(tokens) != simdjson::SUCCESS)
    fail("{}: expected a tokenizer with added_tokens", path.string());
  std::map<std::string, int64_t> ids;
  for (const simdjson::dom::element token : tokens) {
    std::string_view content;
    int64_t id = 0;
    if (token.at_key("content").get(content) == simdjson::SUCCESS && token.at_key("id").get(id) == simdjson::SUCCESS)
      ids.emplace(content, id);
  }
  return ids;
}

class Ct2WhisperParts {
 public:
  Ct2WhisperParts(const Ct2File& file, const fs::path& folder)
      : file_(file), folder_(folder), ids_(ct2_special_tokens(folder / "tokenizer.json")) {
    if (file.revision() > kNewestRevision)
      fail("{}: revision {} of the specification is newer than {}, which is read", file.where(), file.revision(),
           kNewestRevision);
    // What would change the mathematics.
    for (const char* name : {"decoder/alibi", "decoder/scale_embeddings", "decoder/start_from_zero_embedding"})
      if (file.has(name) && file.integer(name) != 0) fail("{}: {}: expected 0, as Whisper has it", file.where(), name);
    if (file.has("decoder/pre_norm") && file.integer("decoder/pre_norm") != 1)
      fail("{}: decoder/pre_norm: expected 1, as Whisper has it", file.where());
    if (fs::path own = folder / "config.json"; path_exists(own)) own_ = read_json(own);
  }

  ContainerParts parts() const {
    ContainerParts parts{{"config.json", dump_json(config(), 2)},
                         {"generation_config.json", dump_json(generation(), 2)}};
    parts["tokenizer.json"] = read_file(folder_ / "tokenizer.json");
    parts["tokenizer_config.json"] = own_file("tokenizer_config.json", {{"tokenizer_class", "WhisperTokenizer"}});
    parts["preprocessor_config.json"] = own_file("preprocessor_config.json", features());
    return parts;
  }

 private:
  static constexpr int64_t kNewestRevision = 3;

  std::string own_file(const char* name, const Json& otherwise) const {
    return path_exists(folder_ / name) ? read_file(folder_ / name) : dump_json(otherwise, 2);
  }
  int64_t extent(const char* name, size_t axis) const {
    const std::vector<int64_t>& shape = file_.shape(name);
    if (axis >= shape.size()) fail("{}: {}: expected more axes", file_.where(), name);
    return shape[axis];
  }
  int64_t token(const char* name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) fail("{}: expected the token {}", (folder_ / "tokenizer.json").string(), name);
    return found->second;
  }

  Json config() const {
    const int64_t end = token("<|endoftext|>");
    return {{"model_type", "whisper"},
            {"architectures", {"WhisperForConditionalGeneration"}},
            {"activation_function", "gelu"},
            {"vocab_size", extent("decoder/embeddings/weight", 0)},
            {"d_model", extent("decoder/embeddings/weight", 1)},
            {"num_mel_bins", extent("encoder/conv1/weight", 1)},
            {"max_source_positions", extent("encoder/position_encodings/encodings", 0)},
            {"max_target_positions", extent("decoder/position_encodings/encodings", 0)},
            {"encoder_layers", ct2_layers(file_, "encoder")},
            {"decoder_layers", ct2_layers(file_, "decoder")},
            {"encoder_attention_heads", file_.integer("encoder/num_heads")},
            {"decoder_attention_heads", file_.integer("decoder/num_heads")},
            {"encoder_ffn_dim", extent("encoder/layer_0/ffn/linear_0/weight", 0)},
            {"decoder_ffn_dim", extent("decoder/layer_0/ffn/linear_0/weight", 0)},
            {"bos_token_id", end},
            {"eos_token_id", end},
            {"pad_token_id", end},
            {"decoder_start_token_id", token("<|startoftranscript|>")}};
  }

  Json generation() const {
    const int64_t end = token("<|endoftext|>"), start = token("<|startoftranscript|>"),
                  no_timestamps = token("<|notimestamps|>");
    Json json{{"bos_token_id", end},
              {"eos_token_id", end},
              {"pad_token_id", end},
              {"decoder_start_token_id", start},
              {"no_timestamps_token_id", no_timestamps},
              {"max_initial_timestamp_index", 50},
              {"max_length", extent("decoder/position_encodings/encodings", 0)}};
    if (ids_.contains("<|startofprev|>")) json["prev_sot_token_id"] = ids_.at("<|startofprev|>");
    const auto take = [&](const char* name, const char* known_as) {
      if (own_.contains(name) && !own_[name].is_null()) json[known_as] = own_[name];
    };
    take("alignment_heads", "alignment_heads");
    take("suppress_ids", "suppress_tokens");
    take("suppress_ids_begin", "begin_suppress_tokens");
    // Models of English alone have one more token of text than others have, and none of theirs is a language.
    constexpr int64_t kEnglish = 51864;
    const bool multilingual = extent("decoder/embeddings/weight", 0) != kEnglish;
    json["is_multilingual"] = multilingual;
    if (!multilingual) return json;
    std::set<int64_t> languages;
    for (const Json& id : own_.value("lang_ids", Json::array()))
      if (id.is_number_integer()) languages.insert(id.get<int64_t>());
    for (const auto& [name, id] : ids_) {
      if (languages.contains(id)) json["lang_to_id"][name] = id;
      if (name == "<|transcribe|>" || name == "<|translate|>") json["task_to_id"][name.substr(2, name.size() - 4)] = id;
    }
    return json;
  }

  Json features() const {
    return {{"feature_extractor_type", "WhisperFeatureExtractor"},
            {"feature_size", extent("encoder/conv1/weight", 1)},
            {"chunk_length", 30},
            {"hop_length", 160},
            {"n_fft", 400},
            {"sampling_rate", 16000}};
  }

  const Ct2File& file_;
  fs::path folder_;
  std::map<std::string, int64_t> ids_;
  Json own_ = Json::object();
};

ContainerParts ct2_whisper_parts(const Ct2File& file, const fs::path& folder) {
  return Ct2WhisperParts(file, folder).parts();
}

class Ct2WhisperWeights {
 public:
  explicit Ct2WhisperWeights(const Ct2File& file) : file_(file) {}

  NamedViews weights() {
    for (const char* name : {"conv1", "conv2"})
      linear(fmt::format("encoder/{}", name), fmt::format("encoder.{}", name));
    for (const char* stack : {"encoder", "decoder"}) {
      add(fmt::format("{}.embed_positions.weight", stack), fmt::format("{}/position_encodings/encodings", stack));
      norm(fmt::format("{}/layer_norm", stack), fmt::format("{}.layer_norm", stack));
      for (int64_t i = 0; i < ct2_layers(file_, stack); ++i)
        layer(fmt::format("{}/layer_{}", stack, i), fmt::format("{}.layers.{}", stack, i));
    }
    add("decoder.embed_tokens.weight", "decoder/embeddings/weight");
    return std::move(views_);
  }

 private:
  void add(const std::string& name, TensorView view) { views_.emplace_back("model." + name, std::move(view)); }
  void add(const std::string& name, const std::string& variable) { add(name, file_.floats(variable)); }
  void linear(const std::string& from, const std::string& to) {
    add(to + ".weight", from + "/weight");
    if (file_.has(from + "/bias")) add(to + ".bias", from + "/bias");
  }
  void norm(const std::string& from, const std::string& to) {
    add(to + ".weight", from + "/gamma");
    add(to + ".bias", from + "/beta");
  }
  // Projections that lie below each other. Those of keys have a bias of zeros, which moves no attention.
  void projections(const std::string& from, const std::string& to, const std::vector<std::string>& names) {
    const TensorView weight = file_.floats(from + "/weight"), bias = file_.floats(from + "/bias");
    const auto count = static_cast<int64_t>(names.size());
    if (weight.shape.size() != 2 || bias.shape.size() != 1 || bias.shape[0] != weight.shape[0] ||
        weight.shape[0] % count != 0)
      fail("{}: {}: expected {} projections with a bias each", file_.where(), from, count);
    const int64_t rows = weight.shape[0] / count;
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = to + "." + names[static_cast<size_t>(i)];
      add(name + ".weight", rows_of_view(weight, i * rows, (i + 1) * rows));
      if (names[static_cast<size_t>(i)] != "k_proj") add(name + ".bias", rows_of_view(bias, i * rows, (i + 1) * rows));
    }
  }
  void layer(const std::string& from, const std::string& to) {
    norm(from + "/self_attention/layer_norm", to + ".self_attn_layer_norm");
    projections(from + "/self_attention/linear_0", to + ".self_attn", {"q_proj", "k_proj", "v_proj"});
    linear(from + "/self_attention/linear_1", to + ".self_attn.out_proj");
    if (file_.has(from + "/attention/linear_0/weight")) {
      norm(from + "/attention/layer_norm", to + ".encoder_attn_layer_norm");
      linear(from + "/attention/linear_0", to + ".encoder_attn.q_proj");
      projections(from + "/attention/linear_1", to + ".encoder_attn", {"k_proj", "v_proj"});
      linear(from + "/attention/linear_2", to + ".encoder_attn.out_proj");
    }
    norm(from + "/ffn/layer_norm", to + ".final_layer_norm");
    linear(from + "/ffn/linear_0", to + ".fc1");
    linear(from + "/ffn/linear_1", to + ".fc2");
  }

  const Ct2File& file_;
  NamedViews views_;
};

NamedViews ct2_whisper_weights(const Ct2File& file) { return Ct2WhisperWeights(file).weights(); }

const RegisterCt2Spec kCt2Whisper({"WhisperSpec", ct2_whisper_parts, ct2_whisper_weights});

}  // namespace
}  // namespace transom
