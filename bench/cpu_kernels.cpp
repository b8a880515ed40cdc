// SPDX-License-Identifier: Apache-2.0
// Times the main kernels of the cpu device on the shapes of BERT-base training: GFLOP/s of products, GB/s of the rest
// (every input read once, every output written once); of a few rows with a weight, as a step of decoding has them, both
// (of the weight alone). Usage: cpu_kernels [part of a name]. On a busy machine, TRANSOM_NUM_THREADS=1 counts the time
// of the thread instead of that of the clock.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <numeric>

#include "backends/harness.h"

using namespace transom::backend_test;

namespace {

constexpr double kBudget = 0.4;  // seconds for each line
const char* filter = "";

bool wanted(const std::string& name) { return name.find(filter) != std::string::npos; }

size_t bytes_of(const Tensor& tensor) { return static_cast<size_t>(tensor.count()) * element_size(tensor.dtype); }

double time_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  Program program(Plugin::cpu(), graph);
  if (!program.compiled()) {
    fmt::print(stderr, "{}\n", program.error);
    std::exit(1);
  }
  return program.seconds(inputs, kBudget);
}

void report(const std::string& name, double seconds, double amount, const char* unit) {
  fmt::print("{:<44} {:>10.1f} us {:>9.1f} {}\n", name, seconds * 1e6, amount / seconds * 1e-9, unit);
  std::fflush(stdout);
}

void bandwidth(const std::string& name, const Graph& graph, const std::vector<Tensor>& inputs) {
  if (!wanted(name)) return;
  size_t bytes = 0;
  for (const Tensor& input : inputs) bytes += bytes_of(input);
  for (int32_t output : graph.outputs()) bytes += bytes_of(graph.type_of(output));
  report(name, time_of(graph, inputs), static_cast<double>(bytes), "GB/s");
}

const char* type_name(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT32 ? "f32" : dtype == TRANSOM_BFLOAT16 ? "bf16" : "f16";
}

void linear(transom_dtype dtype, int64_t m, int64_t n, int64_t k, bool frozen) {
  const std::string name = fmt::format("linear {}x{}x{} {}{}", m, n, k, type_name(dtype), frozen ? " frozen" : "");
  if (!wanted(name)) return;
  const Tensor x = numbers(dtype, {m, k}), w = numbers(dtype, {n, k}), b = numbers(dtype, {n});
  Graph graph;
  const int input = graph.input(x), weight = graph.input(w, frozen), bias = graph.input(b);
  graph.output(graph.node("linear", {input, weight, bias}, dtype, {m, n}));
  report(name, time_of(graph, {x, w, b}), 2.0 * static_cast<double>(m * n * k), "GFLOP/s");
}

// With a frozen weight and no bias.
void frozen_product(const std::string& name, const char* operation, transom_dtype dtype, int64_t m, int64_t n,
                    int64_t k, const Attribute& attribute, const char* unit) {
  if (!wanted(name)) return;
  const Tensor x = numbers(dtype, {m, k}), w = numbers(dtype, {n, k});
  Graph graph;
  const int input = graph.input(x), weight = graph.input(w, true);
  graph.output(graph.node(operation, {input, weight}, dtype, {m, n}, {attribute}));
  report(name, time_of(graph, {x, w}), 2.0 * static_cast<double>(m * n * k), unit);
}

// As an engine asks for them, whose rows do not depend on their company.
void rows_apart(transom_dtype dtype, int64_t m, int64_t n, int64_t k) {
  frozen_product(fmt::format("rows apart {}x{}x{} {}", m, n, k, type_name(dtype)), "linear", dtype, m, n, k,
                 {"batch_invariant", 1}, "GFLOP/s");
}

void quantized(int64_t m, int64_t n, int64_t k) {
  frozen_product(fmt::format("quantized_linear {}x{}x{} frozen", m, n, k), "quantized_linear", TRANSOM_FLOAT32, m, n, k,
                 {"transposed", 0}, "Gop/s");
}

// ---- a few rows with a frozen weight, as a step of decoding has them

// What a product reads has nothing to do with its time, so long as it is finite.
transom_binding filled(size_t bytes, uint16_t pair) {
  transom_binding binding{nullptr, 0};
  transom_error error{};
  const transom_plugin& table = Plugin::cpu().table;
  if (table.buffer_allocate(Plugin::cpu().device, bytes, &binding.buffer, &error)) {
    fmt::print(stderr, "{}\n", error.text);
    std::exit(1);
  }
  auto* to = static_cast<uint16_t*>(table.buffer_host_pointer(binding.buffer));
  std::fill_n(to, bytes / sizeof(uint16_t), pair);
  return binding;
}

struct FewRows {
  const char* type;  // as GGUF files call it
  int64_t bits;      // of a code; 16: bf16
  int64_t group = 32;
};

void few_rows(const FewRows& weight, int64_t m, int64_t n, int64_t k, const char* where) {
  const std::string name = fmt::format("few rows {}x{}x{} {} {}", m, n, k, weight.type, where);
  if (!wanted(name)) return;
  constexpr int64_t kBlock = 32, kLanes = 16;
  constexpr uint16_t kHundredthF16 = 0x2120, kHundredthBF16 = 0x3C24;
  const auto size = [](int64_t elements, int64_t bits) { return static_cast<size_t>(elements * bits / 8); };
  Graph graph;
  std::vector<transom_binding> inputs;
  size_t bytes = size(n * k, weight.bits);
  if (weight.bits == 16) {
    const int x = graph.input(TRANSOM_BFLOAT16, {m, k}), w = graph.input(TRANSOM_BFLOAT16, {n, k}, true);
    graph.output(graph.node("linear", {x, w}, TRANSOM_BFLOAT16, {m, n}));
    inputs = {filled(size(m * k, 16), kHundredthBF16), filled(bytes, kHundredthBF16)};
  } else {
    const int x = graph.input(TRANSOM_FLOAT32, {m, k}),
              codes = graph.input(TRANSOM_UINT8, {n / kLanes, k / kBlock, weight.bits, kLanes, 4}, true),
              scales = graph.input(TRANSOM_FLOAT16, {n / kLanes, k / weight.group, kLanes}, true);
    graph.output(graph.node("quantized_matmul", {x, codes, scales}, TRANSOM_FLOAT32, {m, n},
                            {{"bits", weight.bits},
                             {"rows", n},
                             {"depth", k},
                             {"group", weight.group},
                             {"minima", 0},
                             {"values", 0},
                             {"bias", 0},
                             {"activations", std::string("int8")}}));
    const size_t scale_bytes = size(n * k / weight.group, 16);
    // Codes of q6_K are 96 to 159.
    inputs = {filled(size(m * k, 32), kHundredthBF16), filled(bytes, 0x7A95), filled(scale_bytes, kHundredthF16)};
    bytes += scale_bytes;
  }
  Program program(Plugin::cpu(), graph);
  if (!program.compiled()) {
    fmt::print(stderr, "{}\n", program.error);
    std::exit(1);
  }
  const double seconds = program.seconds(inputs, kBudget), products = 2.0 * static_cast<double>(m * n * k);
  for (const transom_binding& input : inputs) Plugin::cpu().table.buffer_free(input.buffer);
  fmt::print("{:<44} {:>10.1f} us {:>9.1f} Gop/s {:>9.1f} GB/s\n", name, seconds * 1e6, products / seconds * 1e-9,
             static_cast<double>(bytes) / seconds * 1e-9);
  std::fflush(stdout);
}

void few_rows() {
  constexpr int64_t kDepth = 2048;
  for (const FewRows& weight : {FewRows{"q4_0", 4}, FewRows{"q8_0", 8}, FewRows{"q6_K", 8, 16}, FewRows{"bf16", 16}})
    for (const auto& [where, outputs] : {std::pair<const char*, int64_t>{"cache", 256}, {"memory", 65536}})
      for (const int64_t rows : {1, 2, 4, 8, 32}) few_rows(weight, rows, outputs, kDepth, where);
}

void product(const char* what, transom_dtype dtype, Shape x_shape, Shape y_shape, Shape out,
             std::vector<Attribute> axes, double flops) {
  const std::string name = fmt::format("{} {} {}", what, fmt::join(out, "x"), type_name(dtype));
  if (!wanted(name)) return;
  const Tensor x = numbers(dtype, x_shape), y = numbers(dtype, y_shape);
  Graph graph;
  const int a = graph.input(x), b = graph.input(y);
  axes.emplace_back("dtype", dtype);
  graph.output(graph.node("dot_general", {a, b}, dtype, out, axes));
  report(name, time_of(graph, {x, y}), flops, "GFLOP/s");
}

void products(transom_dtype dtype) {
  const int64_t m = 1024;
  for (auto [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}, {2304, 768}}) {
    linear(dtype, m, n, k, false);
    linear(dtype, m, n, k, true);
    const double flops = 2.0 * static_cast<double>(m * n * k);
    const auto axes = [](int64_t x, int64_t y) {
      return std::vector<Attribute>{
          {"x_batch", Shape{}}, {"y_batch", Shape{}}, {"x_contract", Shape{x}}, {"y_contract", Shape{y}}};
    };
    product("input gradient", dtype, {m, n}, {n, k}, {m, k}, axes(1, 0), flops);
    product("weight gradient", dtype, {m, n}, {m, k}, {n, k}, axes(0, 0), flops);
  }
  for (int64_t rows : {1, 4, 8}) linear(dtype, rows, 4096, 4096, false);
  for (int64_t rows : {1, 4, 8, 16, 64}) linear(dtype, rows, 4096, 4096, true);
  for (auto [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}}) linear(dtype, 128, n, k, true);
  const double attention = 2.0 * 8 * 12 * 128 * 128 * 64;
  product("attention scores", dtype, {8, 128, 12, 64}, {8, 128, 12, 64}, {8, 12, 128, 128},
          {{"x_batch", Shape{0, 2}}, {"y_batch", Shape{0, 2}}, {"x_contract", Shape{3}}, {"y_contract", Shape{3}}},
          attention);
  product("attention context", dtype, {8, 12, 128, 128}, {8, 128, 12, 64}, {8, 12, 128, 64},
          {{"x_batch", Shape{0, 1}}, {"y_batch", Shape{0, 2}}, {"x_contract", Shape{3}}, {"y_contract", Shape{1}}},
          attention);
}

int scalar(Graph& region, transom_dtype dtype, double value, const Shape& shape) {
  const int constant = region.node("constant", {}, dtype, {}, {{"value", value}});
  const Shape ones(shape.size(), 1);
  return region.node("broadcast", {region.node("reshape", {constant}, dtype, ones)}, dtype, shape);
}

void gelu(transom_dtype dtype, const Shape& shape) {
  Graph region;
  const auto binary = [&](const char* op, int a, int b) { return region.node(op, {a, b}, dtype, shape); };
  const int x = region.input(dtype, shape);
  const int erf = region.node("erf", {binary("mul", x, scalar(region, dtype, 0.70710678, shape))}, dtype, shape);
  const int half = binary("mul", x, scalar(region, dtype, 0.5, shape));
  region.output(binary("mul", half, binary("add", erf, scalar(region, dtype, 1, shape))));
  const Tensor input = numbers(dtype, shape, -3, 3);
  Graph graph;
  graph.output(graph.fusion({graph.input(input)}, region)[0]);
  bandwidth(fmt::format("fusion gelu {} {}", fmt::join(shape, "x"), type_name(dtype)), graph, {input});
}

int dropped(Graph& region, int x, int key, const Shape& shape) {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  const auto wide = [&](int value, transom_dtype dtype) {
    return region.node("broadcast", {region.node("reshape", {value}, dtype, {1, 1})}, dtype, shape);
  };
  const int bits = region.node("random_bits", {key}, TRANSOM_UINT32, shape);
  const int limit = wide(region.node("constant", {}, TRANSOM_UINT32, {}, {{"int_value", 429496730}}), TRANSOM_UINT32);
  const int gone = region.node("less", {bits, limit}, TRANSOM_BOOL, shape);
  const int scaled = region.node("mul", {x, scalar(region, f32, 1 / 0.9, shape)}, f32, shape);
  return region.node("select", {gone, scalar(region, f32, 0, shape), scaled}, f32, shape);
}

const Tensor kKey = tensor(TRANSOM_INT64, {2}, {42, 7});

// Bias, residual and dropout in one: what stands behind each product of a transformer layer.
void dropout(const Shape& shape) {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  Graph region;
  const int x = region.input(f32, shape), rest = region.input(f32, shape), key = region.input(kKey);
  region.output(region.node("add", {dropped(region, x, key, shape), rest}, f32, shape));
  const Tensor a = numbers(f32, shape), b = numbers(f32, shape);
  Graph graph;
  const int ga = graph.input(a), gb = graph.input(b), gs = graph.input(kKey);
  graph.output(graph.fusion({ga, gb, gs}, region)[0]);
  bandwidth(fmt::format("fusion dropout {} f32", fmt::join(shape, "x")), graph, {a, b, kKey});
}

void adamw(int64_t count) {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  const Shape shape = {count};
  Graph region;
  const int p = region.input(f32, shape), g = region.input(f32, shape), m = region.input(f32, shape),
            v = region.input(f32, shape);
  const auto number = [&](double value) { return scalar(region, f32, value, shape); };
  const auto binary = [&](const char* op, int a, int b) { return region.node(op, {a, b}, f32, shape); };
  const int new_m = binary("add", binary("mul", m, number(0.9)), binary("mul", g, number(0.1)));
  const int new_v = binary("add", binary("mul", v, number(0.999)), binary("mul", binary("mul", g, g), number(0.001)));
  const int root = region.node("sqrt", {binary("mul", new_v, number(1.1))}, f32, shape);
  const int step = binary("div", binary("mul", new_m, number(1e-3)), binary("add", root, number(1e-8)));
  region.output(binary("sub", binary("mul", p, number(0.9999)), step));
  region.output(new_m);
  region.output(new_v);
  std::vector<Tensor> inputs;
  for (uint64_t seed : {1, 2, 3, 4}) inputs.push_back(numbers(f32, shape, 0, 1, seed));
  Graph graph;
  std::vector<int> values;
  for (const Tensor& input : inputs) values.push_back(graph.input(input));
  for (int output : graph.fusion(values, region)) graph.output(output);
  bandwidth(fmt::format("fusion adamw {}", count), graph, inputs);
}

void one_node(const std::string& name, const char* op, const std::vector<Tensor>& inputs,
              std::vector<std::pair<transom_dtype, Shape>> outputs, std::vector<Attribute> attributes = {}) {
  Graph graph;
  std::vector<int> values;
  for (const Tensor& input : inputs) values.push_back(graph.input(input));
  for (int output : graph.nodes(op, values, std::move(outputs), std::move(attributes))) graph.output(output);
  bandwidth(name, graph, inputs);
}

void rows(transom_dtype dtype) {
  const std::string type = type_name(dtype);
  const Shape hidden = {1024, 768}, scores = {8, 12, 128, 128}, width = {768};
  const Tensor x = numbers(dtype, hidden), dy = numbers(dtype, hidden, -1, 1, 2), s = numbers(dtype, scores);
  const Tensor scale = numbers(dtype, width), bias = numbers(dtype, width);
  one_node("layer_norm 1024x768 " + type, "layer_norm", {x, scale, bias}, {{dtype, hidden}}, {{"epsilon", 1e-12}});
  one_node("layer_norm_gradient 1024x768 " + type, "layer_norm_gradient", {x, scale, dy},
           {{dtype, hidden}, {dtype, width}, {dtype, width}}, {{"epsilon", 1e-12}});
  one_node("softmax 8x12x128x128 " + type, "softmax", {s}, {{dtype, scores}});
  one_node("softmax_gradient 8x12x128x128 " + type, "softmax_gradient", {s, s}, {{dtype, scores}});
  one_node("reduce_sum rows 1024x3072 " + type, "reduce_sum", {numbers(dtype, {1024, 3072})}, {{dtype, {1024}}},
           {{"axes", Shape{1}}});
  one_node("reduce_sum columns 1024x3072 " + type, "reduce_sum", {numbers(dtype, {1024, 3072})}, {{dtype, {3072}}},
           {{"axes", Shape{0}}});
}

// What stands between two products on the way back: nodes one by one, and the kernel that they become.
void backward(const std::string& name, const std::vector<Tensor>& inputs,
              const std::function<std::vector<int>(Graph& graph, const std::vector<int>& in)>& add) {
  Graph apart, region, together;
  const auto inputs_in = [&](Graph& graph) {
    std::vector<int> values;
    for (const Tensor& input : inputs) values.push_back(graph.input(input));
    return values;
  };
  for (const int output : add(apart, inputs_in(apart))) apart.output(output);
  for (const int output : add(region, inputs_in(region))) region.output(output);
  for (const int output : together.region("row_fusion", inputs_in(together), region)) together.output(output);
  bandwidth(name + " one by one", apart, inputs);
  bandwidth(name + " row_fusion", together, inputs);
}

void backward(transom_dtype dtype) {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  const Shape wide = {1024, 3072}, hidden = {1024, 768}, width = {768};
  Graph activation, dropout;
  const int x = activation.input(dtype, wide), dy = activation.input(dtype, wide);
  const int inner = activation.node("erf", {activation.node("exp", {x}, dtype, wide)}, dtype, wide);
  activation.output(activation.node("mul", {dy, inner}, dtype, wide));
  const std::string type = type_name(dtype);
  backward("activation and bias 1024x3072 " + type, {numbers(dtype, wide), numbers(dtype, wide, -1, 1, 2)},
           [&](Graph& graph, const std::vector<int>& in) {
             const int dx = graph.fusion(in, activation)[0];
             return std::vector<int>{dx, graph.node("reduce_sum", {dx}, dtype, {3072}, {{"axes", Shape{0}}})};
           });

  const int sum = dropout.input(f32, hidden), key = dropout.input(kKey), made = dropped(dropout, sum, key, hidden);
  dropout.output(dtype == f32 ? made : dropout.node("cast", {made}, dtype, hidden));
  backward("norm, dropout and bias 1024x768 " + type,
           {numbers(f32, hidden), numbers(f32, width), numbers(f32, hidden, -1, 1, 2), numbers(f32, hidden), kKey},
           [&](Graph& graph, const std::vector<int>& in) {
             const int both = graph.node("add", {in[2], in[3]}, f32, hidden);
             std::vector<int> outputs = graph.nodes("layer_norm_gradient", {in[0], in[1], both},
                                                    {{f32, hidden}, {f32, width}, {f32, width}}, {{"epsilon", 1e-12}});
             outputs.push_back(graph.fusion({outputs[0], in[4]}, dropout)[0]);
             outputs.push_back(graph.node("reduce_sum", {outputs[3]}, dtype, width, {{"axes", Shape{0}}}));
             return outputs;
           });
}

void movement() {
  const transom_dtype f32 = TRANSOM_FLOAT32;
  const Tensor x = numbers(f32, {8, 128, 12, 64});
  one_node("permute BTHd -> BHTd", "permute", {x}, {{f32, {8, 12, 128, 64}}}, {{"permutation", Shape{0, 2, 1, 3}}});
  one_node("permute BTHd -> BHdT", "permute", {x}, {{f32, {8, 12, 64, 128}}}, {{"permutation", Shape{0, 2, 3, 1}}});
  one_node("transpose 3072x768", "permute", {numbers(f32, {3072, 768})}, {{f32, {768, 3072}}},
           {{"permutation", Shape{1, 0}}});
  Tensor tokens = numbers(TRANSOM_INT64, {1024}, 0, 30521);
  const Tensor updates = numbers(f32, {1024, 768});
  one_node("gather 1024 of 30522x768", "gather", {numbers(f32, {30522, 768}), tokens}, {{f32, {1024, 768}}},
           {{"axis", 0}});
  one_node("scatter_add 1024 to 30522x768", "scatter_add", {numbers(f32, {30522, 768}), tokens, updates},
           {{f32, {30522, 768}}}, {{"axis", 0}});
}

void convolution(const char* what, Shape x, Shape w, Shape y, int64_t stride, int64_t pad, int64_t groups) {
  const std::string name = fmt::format("convolution {}", what);
  if (!wanted(name)) return;
  const size_t axes = x.size() - 2;
  const Tensor tx = numbers(TRANSOM_FLOAT32, x), tw = numbers(TRANSOM_FLOAT32, w);
  Graph graph;
  const int a = graph.input(tx), b = graph.input(tw);
  graph.output(graph.node("convolution", {a, b}, TRANSOM_FLOAT32, y,
                          {{"strides", Shape(axes, stride)},
                           {"low", Shape(axes, pad)},
                           {"high", Shape(axes, pad)},
                           {"dilations", Shape(axes, 1)},
                           {"groups", groups}}));
  const double window = std::accumulate(w.begin() + 1, w.end(), 1.0, std::multiplies<>());
  const double outputs = std::accumulate(y.begin(), y.end(), 1.0, std::multiplies<>());
  report(name, time_of(graph, {tx, tw}), 2 * outputs * window, "GFLOP/s");
}

// As a model's inference has them: channels last, weights that do not change.
void windows_of_3x3(int64_t images, int64_t places, int64_t channels) {
  const Shape image{images, places, places, channels};
  const std::string name = fmt::format("convolution channels last {} 3x3 frozen", fmt::join(image, "x"));
  if (!wanted(name)) return;
  const Tensor x = numbers(TRANSOM_FLOAT32, image), w = numbers(TRANSOM_FLOAT32, {channels, channels, 3, 3});
  const Shape ones{1, 1};
  Graph graph;
  const int a = graph.input(x), b = graph.input(w, true);
  graph.output(graph.node("channels_last_convolution", {a, b}, TRANSOM_FLOAT32, image,
                          {{"strides", ones}, {"low", ones}, {"high", ones}, {"dilations", ones}, {"groups", 1}}));
  const auto products = static_cast<double>(images * places * places * channels * channels * 9);
  report(name, time_of(graph, {x, w}), 2 * products, "GFLOP/s");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) filter = argv[1];
  products(TRANSOM_FLOAT32);
  products(TRANSOM_BFLOAT16);
  linear(TRANSOM_FLOAT16, 1, 4096, 4096, true);
  linear(TRANSOM_FLOAT16, 128, 768, 768, true);
  for (const int64_t m : {1, 128, 1024}) quantized(m, 3072, 768);
  few_rows();
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}})
      for (const int64_t m : {1, 8, 32, 128, 1024}) rows_apart(dtype, m, n, k);
  gelu(TRANSOM_FLOAT32, {1024, 3072});
  gelu(TRANSOM_BFLOAT16, {1024, 3072});
  dropout({1024, 768});
  adamw(2362368);
  rows(TRANSOM_FLOAT32);
  rows(TRANSOM_BFLOAT16);
  backward(TRANSOM_FLOAT32);
  backward(TRANSOM_BFLOAT16);
  movement();
  convolution("patches 8x3x224x224 by 16", {8, 3, 224, 224}, {768, 3, 16, 16}, {8, 768, 14, 14}, 16, 0, 1);
  convolution("8x64x56x56 3x3", {8, 64, 56, 56}, {64, 64, 3, 3}, {8, 64, 56, 56}, 1, 1, 1);
  convolution("1x512x1000 window 3 stride 2", {1, 512, 1001}, {512, 512, 3}, {1, 512, 500}, 2, 0, 1);
  for (const int64_t images : {1, 8})
    for (const auto& [places, channels] : {std::pair<int64_t, int64_t>{56, 64}, {28, 128}, {14, 256}, {7, 512}})
      windows_of_3x3(images, places, channels);
  return 0;
}
