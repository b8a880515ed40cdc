// SPDX-License-Identifier: Apache-2.0
// The precision that a model is opened in: on whichever thread it is called, in memory, and in what it saves.
#include "models/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>

#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "files/config/config.h"
#include "models/generative.h"
#include "runtime/tensor/evaluate.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

using test::message_of;
using test::TemporaryFolder;

constexpr const char* kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 48,
  "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 64, "max_position_embeddings": 32, "initializer_range": 0.2})";
constexpr const char* kGpt2Model = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 48,
  "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "initializer_range": 0.2})";
constexpr const char* kBartModel = R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
  "vocab_size": 20, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 16,
  "init_std": 0.2, "decoder_start_token_id": 2, "pad_token_id": 1})";

NamedTensors token_ids(int64_t first = 3) {
  std::vector<int64_t> ids(24);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = (first + 7 * static_cast<int64_t>(i)) % 48;
  return {{"input_ids", Tensor::from(ids, {2, 12})}};
}

std::vector<double> last_logits(const Model& model, int64_t first = 3) {
  const NoGradient inference;
  return model.forward(token_ids(first)).at("logits").to_vector<double>();
}

// The root of the mean square of the difference over that of the expected values.
double difference(const std::vector<double>& found, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

class ModelPrecision : public testing::Test {
 protected:
  std::string save(const std::string& name, const char* config, const std::string& dtype = "float32") {
    Model::from_config(config, {.dtype = dtype})->save_pretrained((folder_ / name).string());
    return (folder_ / name).string();
  }
  TemporaryFolder folder_;
};

TEST_F(ModelPrecision, ComesWithTheModelToEveryThread) {
  const std::string path = save("f32", kLlama);
  const auto exact = Model::from_pretrained(path), int8 = Model::from_pretrained(path, {.quantization = "int8"}),
             bf16 = Model::from_pretrained(path, {.dtype = "bfloat16"});
  const std::vector<double> of_f32 = last_logits(*exact), of_int8 = last_logits(*int8), of_bf16 = last_logits(*bf16);
  EXPECT_NE(of_int8, of_f32);
  EXPECT_NE(of_bf16, of_f32);
  EXPECT_LT(difference(of_int8, of_f32), 0.1);
  EXPECT_LT(difference(of_bf16, of_f32), 0.05);
  std::mutex turn;  // passes alternate between the threads; which of them computes at the same time is no matter here
  const auto on_a_thread = [&](const Model& model, const std::vector<double>& expected) {
    return std::async(std::launch::async, [&] {
      for (int call = 0; call < 8; ++call) {
        const std::lock_guard lock(turn);
        EXPECT_EQ(last_logits(model), expected) << "call " << call;
      }
    });
  };
  std::vector<std::future<void>> threads;
  threads.push_back(on_a_thread(*int8, of_int8));
  threads.push_back(on_a_thread(*bf16, of_bf16));
  threads.push_back(on_a_thread(*exact, of_f32));
  for (std::future<void>& thread : threads) thread.get();
}

TEST_F(ModelPrecision, GoesBeforeThatOfThePass) {
  const std::string path = save("f32", kLlama);
  const auto exact = Model::from_pretrained(path), bf16 = Model::from_pretrained(path, {.dtype = "bf16"});
  const std::vector<double> of_f32 = last_logits(*exact), of_bf16 = last_logits(*bf16);
  for (const auto& model : {exact.get(), bf16.get()}) model->set_computing({.dtype = DType::kFloat16});
  EXPECT_EQ(last_logits(*bf16), of_bf16);
  const std::vector<double> of_f16 = last_logits(*exact);
  EXPECT_NE(of_f16, of_f32) << "that of the pass counts for a model of float32";
  exact->set_computing({});
  EXPECT_EQ(last_logits(*exact), of_f32);
  EXPECT_EQ(exact->dtype(), DType::kFloat32) << "of the weights, whatever they are computed with in";
}

TEST_F(ModelPrecision, CountsWhereGenerationStepsThroughTheModel) {
  const std::string path = save("bart", kBartModel);
  const auto states_of = [&](const LoadOptions& options, bool by_pass) {
    const auto model = Model::from_pretrained(path, options);
    const NoGradient inference;
    KeyValueCache cache(1, {1});
    ForwardContext context{.cache = &cache, .computing = {.int8 = by_pass}};
    const auto& writer = dynamic_cast<const GenerativeModel&>(*model);
    writer.encode({{"input_ids", Tensor::from(std::vector<int64_t>{3, 4, 5, 6}, {1, 4})}}, context);
    auto values = cache.encoder_states.to_vector<double>();
    cache.begin(1);
    const Tensor id = Tensor::from(std::vector<int64_t>{2}, {1, 1}),
                 place = Tensor::from(std::vector<int64_t>{0}, {1, 1});
    const auto logits = writer.next_logits({id, place}, context).to_vector<double>();
    values.insert(values.end(), logits.begin(), logits.end());
    return values;
  };
  const auto exact = states_of({}, false), quantized = states_of({.quantization = "int8"}, false);
  EXPECT_NE(exact, quantized);
  EXPECT_EQ(quantized, states_of({}, true));
}

TEST_F(ModelPrecision, AutoIsTheTypeOfTheConfigurationElseOfTheCheckpoint) {
  const std::string path = save("bf16", kLlama, "bfloat16");
  const auto dtype_of = [&](const std::string& name) {
    const auto model = Model::from_pretrained(path, {.dtype = name});
    for (const auto& parameter : model->parameters()) {
      EXPECT_EQ(parameter->value.dtype(), model->dtype()) << parameter->name;
      EXPECT_TRUE(buffer_of(parameter->value)->frozen()) << parameter->name;
    }
    return model->dtype();
  };
  EXPECT_EQ(dtype_of("auto"), DType::kBFloat16);
  EXPECT_EQ(dtype_of("float32"), DType::kFloat32);
  EXPECT_EQ(dtype_of("fp16"), DType::kFloat16);
  EXPECT_EQ(Model::from_pretrained(path)->dtype(), DType::kFloat32);
  Json config = read_json(path + "/config.json");
  EXPECT_EQ(config.at("torch_dtype"), "bfloat16");
  config.erase("torch_dtype");
  write_file(path + "/config.json", config.dump());
  EXPECT_EQ(dtype_of("auto"), DType::kBFloat16);
  config["dtype"] = "float16";
  write_file(path + "/config.json", config.dump());
  EXPECT_EQ(dtype_of("auto"), DType::kFloat16);
  const std::string message = message_of([&] { Model::from_pretrained(path, {.dtype = "int8"}); });
  EXPECT_NE(message.find("expected auto, float32, bfloat16 or float16, found 'int8'"), std::string::npos) << message;
  EXPECT_NE(message_of([&] { Model::from_pretrained(path, {.activations = "int7"}); }).find("activations"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Model::from_pretrained(path, {.quantization = "int7"}); }).find("int7"),
            std::string::npos);
}

template <typename E>
void expect_names_of_all(std::initializer_list<E> values) {
  for (const E value : values) {
    const std::string name(OneOf<E>(value).name());
    EXPECT_FALSE(name.empty()) << static_cast<int>(value);
    EXPECT_EQ(static_cast<E>(OneOf<E>(name)), value) << name;
  }
  for (const auto& each : option_names(E()).names) EXPECT_EQ(static_cast<E>(OneOf<E>(each.name)), each.value);
  const std::string message = message_of([] { OneOf<E>("no such name"); });
  for (const E value : values) EXPECT_NE(message.find(OneOf<E>(value).name()), std::string::npos) << message;
}

TEST(OneOf, HasANameForEveryValueAndRefusesOthers) {
  expect_names_of_all({ModelDType::kAuto, ModelDType::kFloat32, ModelDType::kBFloat16, ModelDType::kFloat16});
  expect_names_of_all({Quantization::kNone, Quantization::kInt8, Quantization::kInt8Channel, Quantization::kNf4,
                       Quantization::kFp4, Quantization::kDecompressed});
  expect_names_of_all(
      {Activations::kFloat32, Activations::kStatic, Activations::kInt8, Activations::kFastest, Activations::kFloat8});
  EXPECT_EQ(message_of([] { OneOf<ModelDType>::parse("half", "--dtype"); }),
            "--dtype: expected auto, float32, bfloat16 or float16, found 'half'");
}

TEST_F(ModelPrecision, IsWhatIsSaved) {
  const std::string path = save("bf16", kLlama, "bfloat16"), copy = (folder_ / "copy").string();
  const auto model = Model::from_pretrained(path, {.dtype = "auto"});
  model->save_pretrained(copy);
  for (const auto& [name, view] : SafetensorsFile::open(copy + "/model.safetensors").tensors())
    EXPECT_EQ(view.dtype, DType::kBFloat16) << name;
  EXPECT_EQ(read_file(copy + "/model.safetensors"), read_file(path + "/model.safetensors"));
  EXPECT_EQ(read_file(copy + "/config.json"), read_file(path + "/config.json"));
  Model::from_pretrained(path)->save_pretrained(copy);
  EXPECT_EQ(read_json(copy + "/config.json").at("torch_dtype"), "float32");
  EXPECT_EQ(SafetensorsFile::open(copy + "/model.safetensors").tensors()[0].second.dtype, DType::kFloat32);
}

int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return 1024 * std::stoll(line.substr(8));
  return 0;
}

TEST_F(ModelPrecision, WeightsOfTheWantedTypeStayInTheFile) {
  std::string config = kLlama;
  config.replace(config.find("48"), 2, "262144");  // 8 Mi numbers: 16 MiB in bf16
  const std::string path = save("wide", config.c_str(), "bfloat16");
  const auto growth = [&](const std::string& dtype) {
    const int64_t before = anonymous_bytes();
    const auto model = Model::from_pretrained(path, {.dtype = dtype});
    return anonymous_bytes() - before;
  };
  EXPECT_LT(growth("auto"), int64_t{4} << 20);
  EXPECT_GT(growth("float32"), int64_t{24} << 20);
}

TEST_F(ModelPrecision, PackedWeightsComputeWhatTheyHold) {
  for (const char* config : {kLlama, kGpt2Model}) {
    const std::string path = save("packed", config);
    const auto exact = Model::from_pretrained(path),
               packed = Model::from_pretrained(path, {.quantization = "int8_channel"});
    const std::vector<double> expected = last_logits(*exact), found = last_logits(*packed);
    EXPECT_NE(found, expected);
    EXPECT_LT(difference(found, expected), 0.05);
    int64_t linear = 0;
    for (const auto& parameter : packed->frozen()) linear += parameter->packed != nullptr;
    EXPECT_EQ(linear, config == kLlama ? 14 : 8);
    const std::string saved = (folder_ / "unpacked").string();
    packed->save_pretrained(saved);
    const auto again = Model::from_pretrained(saved);
    EXPECT_LT(difference(last_logits(*again), found), 1e-5);
  }
}

TEST_F(ModelPrecision, NothingIsTrainedIn16Bits) {
  const auto model = Model::from_config(kLlama, {.dtype = "bfloat16"});
  TrainingArguments arguments;
  TrainStep step(*model, arguments);
  NamedTensors batch = token_ids();
  batch.set("labels", batch.at("input_ids"));
  EXPECT_NE(message_of([&] { step({batch}, 1e-3, 0); }).find("expected weights of float32"), std::string::npos);
}

}  // namespace
}  // namespace transom
