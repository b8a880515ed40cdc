// SPDX-License-Identifier: Apache-2.0
// Weights that quantization_config describes: written and read back, and what is wrong is named.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/json/json.h"
#include "files/blocks/gptq_config.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/quantized_writer.h"
#include "files/blocks/rounded_matrix.h"
#include "support/message.h"
#include "support/test_names.h"

namespace transom {
namespace {

std::vector<float> wave(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(2 + 1.7 * static_cast<double>(i * i % 1009)));
  return values;
}

std::vector<float> numbers_of(const BlockMatrix& matrix) {
  const TensorView view = dequantised_view(matrix);
  std::vector<float> numbers(view.bytes.size() / 4);
  std::memcpy(numbers.data(), view.bytes.data(), view.bytes.size());
  return numbers;
}

TensorView view_of(DType dtype, std::vector<int64_t> shape, std::string bytes) {
  const auto held = std::make_shared<const std::string>(std::move(bytes));
  return {dtype, std::move(shape), std::as_bytes(std::span(*held)), held};
}

Config config_of(const Json& json) { return make_config(json, "config.json: quantization_config"); }

struct Case {
  const char* format;
  int bits;
  int64_t rows, depth, group;
};
class QuantizedFormats : public testing::TestWithParam<Case> {};

TEST_P(QuantizedFormats, AreReadAsTheyAreWritten) {
  const Case& c = GetParam();
  const std::vector<float> exact = wave(c.rows * c.depth);
  const auto matrix = rounded_matrix(exact.data(), c.rows, c.depth, {.bits = c.bits, .group = c.group, .search = true});
  const QuantizedFormat format = parse_quantized_format(c.format, "--format");
  NamedViews tensors;
  write_codes(*matrix, format, "a.q_proj", tensors);
  Checkpoint checkpoint("model.safetensors");
  for (auto& [name, view] : tensors) checkpoint.add(name, view);
  const Json config = format == QuantizedFormat::kGptq ? gptq_config_of(c.bits, c.group, false, {"a.q_proj"}, {})
                                                       : quantization_config_of(format, c.bits, c.group, {});
  read_quantized_weights(config_of(config), checkpoint);
  EXPECT_TRUE(checkpoint.tensors().empty()) << checkpoint.tensors()[0].first;
  const CompressedWeight* weight = checkpoint.find_compressed("a.q_proj.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(numbers_of(*weight->matrix), numbers_of(*matrix));
}

INSTANTIATE_TEST_SUITE_P(Cases, QuantizedFormats,
                         testing::Values(Case{"gptq", 4, 24, 64, 32}, Case{"gptq", 8, 8, 96, 96},
                                         Case{"awq", 4, 40, 64, 16}, Case{"compressed-tensors", 4, 7, 96, 32},
                                         Case{"compressed-tensors", 8, 5, 40, 40}),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return test::words(c.format, c.bits, "bits", c.rows, "by", c.depth, "groups_of", c.group);
                         });

TEST(QuantizedWeights, ScalesOfTheLeastError) {
  const std::vector<float> exact = wave(64 * 64);
  const auto error = [&](bool search) {
    const std::vector<float> found =
        numbers_of(*rounded_matrix(exact.data(), 64, 64, {.bits = 4, .group = 32, .search = search}));
    double sum = 0;
    for (size_t i = 0; i < exact.size(); ++i) sum += std::pow(found[i] - exact[i], 2);
    return sum;
  };
  EXPECT_LT(error(true), error(false));
}

// AutoAWQ's scaled activations: the layer behind one is read with its columns divided.
TEST(QuantizedWeights, OfAwqBehindScaledActivations) {
  const std::vector<float> exact = wave(16 * 32);
  const auto matrix = rounded_matrix(exact.data(), 16, 32, {.bits = 4, .group = 16, .search = true});
  const Json config = quantization_config_of(QuantizedFormat::kAwq, 4, 16, {});
  const auto opened = [&](std::vector<float> scales, const std::string& layer) {
    NamedViews tensors;
    write_codes(*matrix, QuantizedFormat::kAwq, layer, tensors);
    Checkpoint checkpoint("m.safetensors");
    for (auto& [name, view] : tensors) checkpoint.add(name, view);
    const auto held = std::make_shared<std::vector<float>>(std::move(scales));
    checkpoint.add("h.0.mlp.act.scales",
                   {DType::kFloat32, {static_cast<int64_t>(held->size())}, std::as_bytes(std::span(*held)), held});
    read_quantized_weights(config_of(config), checkpoint);
    return checkpoint;
  };
  EXPECT_NE(opened(std::vector<float>(32, 1.0f), "h.0.mlp.c_proj").find_compressed("h.0.mlp.c_proj.weight"), nullptr);
  std::vector<float> scales(32, 1.0f);
  scales[3] = 4;
  const Checkpoint divided = opened(scales, "h.0.mlp.c_proj");
  const TensorView* weight = divided.find("h.0.mlp.c_proj.weight");
  ASSERT_NE(weight, nullptr);
  std::vector<float> expected = numbers_of(*matrix), found(16 * 32);
  for (size_t row = 0; row < 16; ++row) expected[row * 32 + 3] /= 4;
  std::memcpy(found.data(), weight->bytes.data(), weight->bytes.size());
  EXPECT_EQ(found, expected);
  EXPECT_NE(test::message_of([&] { opened(scales, "h.0.mlp.c_fc"); }).find("no codes of the layer behind it"),
            std::string::npos);
  scales.pop_back();
  EXPECT_NE(test::message_of([&] { opened(scales, "h.0.mlp.c_proj"); }).find("expected 32 scales of the activation"),
            std::string::npos);
}

// Readers of GPTQ find blocks by their names; what is otherwise is said.
TEST(QuantizedWeights, GptqNamesItsModulesWhereReadersWouldNotFindThem) {
  const Json known =
      gptq_config_of(4, 32, false, {"model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"}, {"score"});
  EXPECT_FALSE(known.contains("block_name_to_quantize") || known.contains("modules_in_block_to_quantize"));
  const Json two = gptq_config_of(4, 32, false, {"model.encoder.layers.0.fc1", "model.decoder.layers.0.fc2"}, {});
  EXPECT_EQ(two["block_name_to_quantize"], "model.");
  EXPECT_EQ(two["modules_in_block_to_quantize"], parse_json(R"([["fc1", "fc2"]])", "expected"));
  const Json kept = gptq_config_of(4, 32, false, {"model.layers.0.up", "model.layers.0.down", "model.layers.1.up"},
                                   {"model.layers.1.down"});
  EXPECT_FALSE(kept.contains("block_name_to_quantize"));
  EXPECT_EQ(kept["modules_in_block_to_quantize"], parse_json(R"([["model.layers.0.down", "up"]])", "expected"));
  EXPECT_TRUE(kept["dynamic"].contains("-:^model.layers.1.down$"));
}

// A checkpoint of GPTQ without what `without` names.
Checkpoint gptq(const std::string& without = "") {
  const std::vector<float> exact = wave(16 * 32);
  NamedViews tensors;
  write_codes(*rounded_matrix(exact.data(), 16, 32, {.bits = 4, .group = 16, .search = true}), QuantizedFormat::kGptq,
              "x", tensors);
  Checkpoint checkpoint("m.safetensors");
  for (auto& [name, view] : tensors)
    if (name != without) checkpoint.add(name, view);
  return checkpoint;
}

const Json kGptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};

std::string refusal(Checkpoint checkpoint, const Json& config) {
  return test::message_of([&] { read_quantized_weights(config_of(config), checkpoint); });
}

TEST(QuantizedWeights, SayWhatIsMissingOrWrong) {
  EXPECT_NE(refusal(gptq("x.scales"), kGptq).find("'x.scales' of a quantised weight is missing"), std::string::npos);
  EXPECT_NE(refusal(gptq("x.qzeros"), kGptq).find("'x.qzeros'"), std::string::npos);
  Json config = kGptq;
  config["group_size"] = 8;
  EXPECT_NE(refusal(gptq(), config).find("'x.qzeros': expected i32 [4, 2], found i32 [2, 2]"), std::string::npos);
  config["group_size"] = 0;
  EXPECT_NE(refusal(gptq(), config).find("group_size: expected -1 or a number above 0"), std::string::npos);
  config["bits"] = 5;
  EXPECT_NE(refusal(gptq(), config).find("2, 3, 4 and 8 are supported"), std::string::npos);
  config["quant_method"] = "aqlm";
  EXPECT_NE(refusal(gptq(), config).find("quant_method 'aqlm' is not supported"), std::string::npos);
}

// What would be read as another weight, or as none.
TEST(QuantizedWeights, PartsThatTheConfigurationAsksForAreThere) {
  Json config = kGptq;
  EXPECT_EQ(refusal(gptq("x.g_idx"), config), "");
  config["desc_act"] = true;
  EXPECT_NE(refusal(gptq("x.g_idx"), config).find("'x.g_idx' of a quantised weight is missing"), std::string::npos);
  EXPECT_NE(refusal(gptq("x.qweight"), kGptq).find("'x.qweight' of a quantised weight is missing, 'x.qzeros' is there"),
            std::string::npos);
  const auto awq = [](bool zero_point) {
    const std::vector<float> exact = wave(16 * 32);
    NamedViews tensors;
    write_codes(*rounded_matrix(exact.data(), 16, 32, {.bits = 4, .group = 16, .search = true}), QuantizedFormat::kAwq,
                "x", tensors);
    Checkpoint checkpoint("m.safetensors");
    for (auto& [name, view] : tensors)
      if (name != "x.qzeros") checkpoint.add(name, view);
    return refusal(std::move(checkpoint),
                   {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 16}, {"zero_point", zero_point}});
  };
  EXPECT_EQ(awq(false), "");
  EXPECT_NE(awq(true).find("'x.qzeros' of a quantised weight is missing"), std::string::npos);
}

TEST(QuantizedWeights, GroupsOfInputsAreChecked) {
  const auto with = [](const std::vector<int32_t>& groups) {
    Checkpoint checkpoint = gptq("x.g_idx");
    checkpoint.add("x.g_idx", view_of(DType::kInt32, {static_cast<int64_t>(groups.size())},
                                      {reinterpret_cast<const char*>(groups.data()), groups.size() * 4}));
    return checkpoint;
  };
  std::vector<int32_t> groups(32);
  for (size_t i = 0; i < 32; ++i) groups[i] = i % 2;
  Checkpoint interleaved = with(groups);
  read_quantized_weights(config_of(kGptq), interleaved);
  const BlockLayout& layout = interleaved.find_compressed("x.weight")->matrix->layout();
  ASSERT_EQ(layout.order.size(), 32u);
  EXPECT_EQ(layout.order[1], 2);
  EXPECT_EQ(layout.order[16], 1);
  groups[0] = 2;
  EXPECT_NE(refusal(with(groups), kGptq).find("input 0 belongs to group 2, of 2"), std::string::npos);
  groups[0] = 1;
  EXPECT_NE(refusal(with(groups), kGptq).find("expected 16 inputs of group 0, found 15"), std::string::npos);
  groups.pop_back();
  EXPECT_NE(refusal(with(groups), kGptq).find("expected 32 numbers, found 31"), std::string::npos);
}

// One output for each zero point, all of whose codes are 5, with these words of zero points.
std::vector<float> first_numbers(uint32_t zero_words, const Json& config) {
  Checkpoint checkpoint("m.safetensors");
  const auto add = [&](const char* name, DType dtype, std::vector<int64_t> shape, const std::vector<uint32_t>& words) {
    checkpoint.add(name,
                   view_of(dtype, std::move(shape), {reinterpret_cast<const char*>(words.data()), words.size() * 4}));
  };
  add("x.qweight", DType::kInt32, {1, 8}, std::vector<uint32_t>(8, 0x55555555));
  add("x.qzeros", DType::kInt32, {1, 1}, {zero_words});
  add("x.scales", DType::kFloat32, {1, 8}, std::vector<uint32_t>(8, std::bit_cast<uint32_t>(1.0f)));
  read_quantized_weights(config_of(config), checkpoint);
  const std::vector<float> numbers = numbers_of(*checkpoint.find_compressed("x.weight")->matrix);
  std::vector<float> firsts;
  for (size_t row = 0; row < 8; ++row) firsts.push_back(numbers[8 * row]);
  return firsts;
}

TEST(QuantizedWeights, VersionsOfGptqAreToldByEitherField) {
  const uint32_t zeros = 0x76543210;  // of outputs 7 to 0
  const std::vector<float> expected{5, 4, 3, 2, 1, 0, -1, -2};
  Json config = kGptq;
  config["format"] = "gptq_v2";  // of Transformers 5
  EXPECT_EQ(first_numbers(zeros, config), expected);
  config["checkpoint_format"] = "gptq";
  EXPECT_EQ(first_numbers(zeros - 0x11111111, config), expected);  // 0 borrows from its neighbour
  config.erase("format");
  EXPECT_EQ(first_numbers(zeros - 0x11111111, config), expected);
  config["checkpoint_format"] = "gptq_v2";
  EXPECT_EQ(first_numbers(zeros, config), expected);
  config["checkpoint_format"] = "marlin";
  EXPECT_NE(refusal(gptq(), config).find("checkpoint_format 'marlin' is not supported"), std::string::npos);
  config.erase("checkpoint_format");
  config["format"] = "gptq_p";
  EXPECT_NE(refusal(gptq(), config).find("format 'gptq_p' is not supported"), std::string::npos);
  config = kGptq;
  config["pack_dtype"] = "int16";
  EXPECT_NE(refusal(gptq(), config).find("pack_dtype 'int16' is not supported; int32 is"), std::string::npos);
  config = {{"quant_method", "awq"}, {"format", "gemv"}};  // as Transformers 5 says it
  EXPECT_NE(refusal(gptq(), config).find("version 'gemv' of AWQ is not supported"), std::string::npos);
}

// GPTQModel gives layers bits and groups of their own by patterns of names; the shapes say the same.
TEST(QuantizedWeights, LayersOfGptqHaveTheirOwnBitsAndGroups) {
  const std::vector<float> exact = wave(16 * 64);
  const auto eight = rounded_matrix(exact.data(), 16, 64, {.bits = 8, .group = 16, .search = true});
  NamedViews tensors;
  write_codes(*eight, QuantizedFormat::kGptq, "y", tensors);
  const auto with_both = [&] {
    Checkpoint checkpoint = gptq();
    for (auto& [name, view] : tensors) checkpoint.add(name, view);
    return checkpoint;
  };
  Json config = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  EXPECT_NE(refusal(with_both(), config).find("expected i32"), std::string::npos);
  config["dynamic"] = {{"+:.*", {{"bits", 8}, {"group_size", 16}}}};
  Checkpoint checkpoint = with_both();
  read_quantized_weights(config_of(config), checkpoint);
  EXPECT_EQ(numbers_of(*checkpoint.find_compressed("y.weight")->matrix), numbers_of(*eight));
  EXPECT_EQ(checkpoint.find_compressed("x.weight")->matrix->layout().group, 16);
}

// bnb_4bit_quant_storage stores the bytes as numbers of another type.
TEST(QuantizedWeights, BytesOfBitsandbytesHaveAnyType) {
  const auto numbers_as = [](DType dtype, std::vector<int64_t> shape) {
    const std::string state = R"({"quant_type":"nf4","blocksize":64,"shape":[2,8]})";
    std::vector<float> values(16);
    for (size_t i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
    const float scale = 2;
    Checkpoint checkpoint("m.safetensors");
    checkpoint.add("x.weight", view_of(dtype, std::move(shape), "\x01\x23\x45\x67\x89\xab\xcd\xef"));
    checkpoint.add("x.weight.quant_map",
                   view_of(DType::kFloat32, {16}, {reinterpret_cast<const char*>(values.data()), 64}));
    checkpoint.add("x.weight.absmax", view_of(DType::kFloat32, {1}, {reinterpret_cast<const char*>(&scale), 4}));
    checkpoint.add("x.weight.quant_state.bitsandbytes__nf4",
                   view_of(DType::kUInt8, {static_cast<int64_t>(state.size())}, state));
    read_quantized_weights(config_of({{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}), checkpoint);
    return numbers_of(*checkpoint.find_compressed("x.weight")->matrix);
  };
  const std::vector<float> expected = numbers_as(DType::kUInt8, {8, 1});
  EXPECT_EQ(expected[15], 30);
  EXPECT_EQ(numbers_as(DType::kBFloat16, {4, 1}), expected);
  EXPECT_EQ(numbers_as(DType::kFloat32, {2, 1}), expected);
}

// The tensors of one layer with scales of its inputs, one of them in another form.
Checkpoint integers(const std::vector<int64_t>& shape, const std::string& other = "", TensorView view = {}) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::string codes(static_cast<size_t>(count), 0);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(static_cast<int>(i * 7 % 255) - 127);
  const IntegerCodes layer{.codes = view_of(DType::kInt8, shape, codes),
                           .scales = std::vector<float>(static_cast<size_t>(shape[0]), 0.25f),
                           .input_scale = 0.5f,
                           .input_zero_point = -128};
  NamedViews tensors;
  write_integers(layer, "x", tensors);
  Checkpoint checkpoint("model.safetensors");
  for (auto& [name, part] : tensors) checkpoint.add(name, name == other ? view : part);
  return checkpoint;
}

TEST(IntegerWeights, AreReadAsTheyAreWritten) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 8}, {4, 3, 3, 2}}) {
    Checkpoint checkpoint = integers(shape);
    read_quantized_weights(config_of(static_config_of({}, true)), checkpoint);
    EXPECT_TRUE(checkpoint.tensors().empty()) << checkpoint.tensors()[0].first;
    const CompressedWeight* weight = checkpoint.find_compressed("x.weight");
    ASSERT_TRUE(weight && weight->integers);
    EXPECT_EQ(weight->integers->codes.shape, shape);
    EXPECT_EQ(weight->integers->scales, std::vector<float>(static_cast<size_t>(shape[0]), 0.25f));
    EXPECT_EQ(weight->integers->input_scale, 0.5f);
    EXPECT_EQ(weight->integers->input_zero_point, -128);
    EXPECT_EQ(weight->shape, shape.size() > 2 ? shape : std::vector<int64_t>());
    EXPECT_EQ(numbers_of(*weight->matrix)[1], 0.25f * (7 - 127));
  }
}

TEST(IntegerWeights, SayWhatIsWrongOfTheirInputs) {
  const Json config = static_config_of({}, false);
  const auto floats = [](std::vector<float> values) {
    std::string bytes(values.size() * 4, 0);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return view_of(DType::kFloat32, {static_cast<int64_t>(values.size())}, bytes);
  };
  for (const float scale : {0.0f, -1.0f, INFINITY, NAN, 1e-45f})
    EXPECT_NE(refusal(integers({2, 4}, "x.input_scale", floats({scale})), config)
                  .find("'x.input_scale': expected one finite number above 0"),
              std::string::npos)
        << scale;
  EXPECT_NE(refusal(integers({2, 4}, "x.input_scale", floats({1, 2})), config).find("found 2 numbers"),
            std::string::npos);
  EXPECT_NE(refusal(integers({2, 4}, "x.input_zero_point", floats({1})), config).find("expected one i8"),
            std::string::npos);
  EXPECT_NE(refusal(integers({2, 4}, "x.weight_scale", floats({1, 2, 3})), config).find("expected scales for 2 rows"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
