// SPDX-License-Identifier: Apache-2.0
// The golden Whisper, written as CTranslate2 writes it, is the same model.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/files/files.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/config.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom {
namespace {

template <typename T>
std::string ct2_raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// model.bin of the weights of a checkpoint.
class Ct2Writer {
 public:
  explicit Ct2Writer(const std::filesystem::path& model) : weights_(Checkpoint::open(model)) {
    for (const char* conv : {"conv1", "conv2"}) linear("encoder." + std::string(conv), "encoder/" + std::string(conv));
    for (const std::string stack : {"encoder", "decoder"}) {
      copy(stack + ".embed_positions.weight", stack + "/position_encodings/encodings");
      norm(stack + ".layer_norm", stack + "/layer_norm");
      number<int16_t>(stack + "/num_heads", 2, 4);
      for (const std::string layer : {"0", "1"}) write_layer(stack + ".layers." + layer, stack + "/layer_" + layer);
    }
    copy("decoder.embed_tokens.weight", "decoder/embeddings/weight");
    number<int8_t>("decoder/pre_norm", 1, 1);
    number<int8_t>("decoder/scale_embeddings", 1, 0);
  }

  std::string file(uint32_t revision = 3) const {
    return ct2_raw<uint32_t>(6) + named("WhisperSpec") + ct2_raw(revision) + ct2_raw(count_) + variables_ +
           ct2_raw<uint32_t>(1) + named("decoder/projection/weight") + named("decoder/embeddings/weight");
  }

 private:
  static std::string named(const std::string& text) {
    return ct2_raw(static_cast<uint16_t>(text.size() + 1)) + text + '\0';
  }
  void add(const std::string& name, const std::vector<int64_t>& shape, uint8_t type, const std::string& data) {
    variables_ += named(name) + ct2_raw(static_cast<uint8_t>(shape.size()));
    for (const int64_t extent : shape) variables_ += ct2_raw(static_cast<uint32_t>(extent));
    variables_ += ct2_raw(type) + ct2_raw(static_cast<uint32_t>(data.size())) + data;
    ++count_;
  }
  template <typename T>
  void number(const std::string& name, uint8_t type, T value) {
    add(name, {}, type, ct2_raw(value));
  }
  const TensorView& view(const std::string& name) const { return *weights_.find("model." + name); }
  static std::string bytes_of(const TensorView& view) {
    return {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()};
  }
  void copy(const std::string& from, const std::string& to) { add(to, view(from).shape, 0, bytes_of(view(from))); }
  void linear(const std::string& from, const std::string& to) {
    copy(from + ".weight", to + "/weight");
    copy(from + ".bias", to + "/bias");
  }
  void norm(const std::string& from, const std::string& to) {
    copy(from + ".weight", to + "/gamma");
    copy(from + ".bias", to + "/beta");
  }
  void projections(const std::string& from, const std::vector<std::string>& names, const std::string& to) {
    std::string weights, biases;
    int64_t rows = 0, columns = 0;
    for (const std::string& name : names) {
      const TensorView& weight = view(from + "." + name + ".weight");
      weights += bytes_of(weight), rows += weight.shape[0], columns = weight.shape[1];
      biases += name == "k_proj" ? std::string(static_cast<size_t>(weight.shape[0]) * sizeof(float), '\0')
                                 : bytes_of(view(from + "." + name + ".bias"));
    }
    add(to + "/weight", {rows, columns}, 0, weights);
    add(to + "/bias", {rows}, 0, biases);
  }
  void write_layer(const std::string& from, const std::string& to) {
    norm(from + ".self_attn_layer_norm", to + "/self_attention/layer_norm");
    projections(from + ".self_attn", {"q_proj", "k_proj", "v_proj"}, to + "/self_attention/linear_0");
    linear(from + ".self_attn.out_proj", to + "/self_attention/linear_1");
    if (from.starts_with("decoder")) {
      norm(from + ".encoder_attn_layer_norm", to + "/attention/layer_norm");
      linear(from + ".encoder_attn.q_proj", to + "/attention/linear_0");
      projections(from + ".encoder_attn", {"k_proj", "v_proj"}, to + "/attention/linear_1");
      linear(from + ".encoder_attn.out_proj", to + "/attention/linear_2");
    }
    norm(from + ".final_layer_norm", to + "/ffn/layer_norm");
    linear(from + ".fc1", to + "/ffn/linear_0");
    linear(from + ".fc2", to + "/ffn/linear_1");
  }

  Checkpoint weights_;
  std::string variables_;
  uint32_t count_ = 0;
};

TEST(WhisperCt2, IsTheModelThatWasConverted) {
  const std::filesystem::path golden = test::root_of_case("") / "whisper" / "model";
  const test::TemporaryFolder folder;
  const Ct2Writer writer(golden);
  write_file(folder / "model.bin", writer.file());
  write_file(folder / "config.json", R"({"alignment_heads": [[0, 1]], "lang_ids": [362, 363], "suppress_ids": [5]})");
  EXPECT_NE(test::message_of([&] { Model::from_pretrained(folder.string()); }).find("tokenizer.json"),
            std::string::npos);
  std::filesystem::copy_file(golden / "tokenizer.json", folder / "tokenizer.json");
  const auto model = Model::from_pretrained(folder.string()), right = Model::from_pretrained(golden.string());
  for (const char* field :
       {"vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_ffn_dim",
        "max_source_positions", "max_target_positions", "num_mel_bins", "decoder_start_token_id", "eos_token_id"})
    EXPECT_EQ(model->config().get_int(field, -1), right->config().get_int(field, -2)) << field;
  ASSERT_EQ(model->parameters().size(), right->parameters().size());
  for (size_t i = 0; i < right->parameters().size(); ++i) {
    EXPECT_EQ(model->parameters()[i]->name, right->parameters()[i]->name);
    EXPECT_EQ(model->parameters()[i]->value.to_vector<float>(), right->parameters()[i]->value.to_vector<float>())
        << right->parameters()[i]->name;
  }
  const std::string generation = read_file(folder / "model.bin" / "generation_config.json");
  for (const char* part :
       {"alignment_heads", "\"<|en|>\": 362", "\"transcribe\": 366", "\"no_timestamps_token_id\": 370"})
    EXPECT_NE(generation.find(part), std::string::npos) << part << " in " << generation;
  write_file(folder / "model.bin", writer.file(99));
  EXPECT_NE(test::message_of([&] { Model::from_pretrained(folder.string()); }).find("revision 99"), std::string::npos);
}

}  // namespace
}  // namespace transom
