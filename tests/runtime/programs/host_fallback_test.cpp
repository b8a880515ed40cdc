// SPDX-License-Identifier: Apache-2.0
// Programs on devices that lack operations (partial_plugin.cpp): what is missing runs on the host, and says so.
#include <gtest/gtest.h>

#include "base/terminal/log.h"
#include "runtime/programs/compilation.h"
#include "runtime/programs/node_support.h"
#include "runtime/programs/program.h"
#include "support/folders.h"
#include "support/message.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

class HostFallback : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    setenv("TRANSOM_PLUGIN_PATH", (test::build_folder() + "/partial_plugins").c_str(), 1);
  }
  void TearDown() override {
    set_mode(Mode::kLazy);
    set_device("cpu");
    set_log_sink({});
  }
};

Tensor input() {
  Floats values;
  for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(i % 7) * 0.25F - 0.6F);
  return Tensor::from(values, {4, 6});
}

// A composite, primitives inside of fusions and alone, and a type that the device lacks.
std::vector<Tensor> values() {
  const Tensor x = input(), scale = full({6}, 1.5), shift = full({6}, 0.25);
  const Tensor normed = layer_norm(x, scale, shift, 1e-5);
  const Tensor bent = exp(erf(normed * 0.5) + 1.0) - tanh(x);
  const Tensor picked = gather(bent, Tensor::from(std::vector<int64_t>{2, 0, 2}, {3}), 0);
  const Tensor counted = cast(Tensor::from(std::vector<int64_t>{3, 1, 2}, {3, 1}), DType::kFloat32);
  return {bent, picked * broadcast_to(counted, {3, 6}), reduce_max(picked, {1})};
}

Floats all_floats(const std::vector<Tensor>& tensors) {
  eval(tensors);
  Floats all;
  for (const Tensor& tensor : tensors)
    for (const float value : tensor.to_vector<float>()) all.push_back(value);
  return all;
}

TEST_P(HostFallback, GivesWhatADeviceThatHasAllGives) {
  set_device("cpu");
  const Floats expected = all_floats(values());
  set_device(GetParam());
  const Floats found = all_floats(values());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_P(HostFallback, HasTheSameBitsInEveryMode) {
  set_device(GetParam());
  const Floats lazy = all_floats(values());
  set_mode(Mode::kEager);
  EXPECT_EQ(all_floats(values()), lazy);
  set_mode(Mode::kLazy);
  for (const bool capture : {false, true}) {
    const CompiledFunction function = compile(
        [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {exp(erf(in[0]) * 2.0) + tanh(in[0])}; },
        {.name = "test", .capture = capture});
    const Floats expected = all_floats({exp(erf(input()) * 2.0) + tanh(input())});
    for (int run = 0; run < 3; ++run) EXPECT_EQ(function({input()})[0].to_vector<float>(), expected) << capture;
    // Another value of the same shape, through the same program.
    const Floats other = all_floats({exp(erf(input() + 1.0) * 2.0) + tanh(input() + 1.0)});
    EXPECT_EQ(function({input() + 1.0})[0].to_vector<float>(), other);
  }
}

TEST_P(HostFallback, HasGradients) {
  const auto gradient = [] {
    Tensor x = input();
    x.set_requires_grad();
    return gradients(reduce_sum(erf(x) * tanh(x), {0, 1}), {x})[0].to_vector<float>();
  };
  set_device("cpu");
  const Floats expected = gradient();
  set_device(GetParam());
  const Floats found = gradient();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

// What lies between partitions is not copied into another shape. Where the last one reads it in two shapes, none of its
// results may take that memory.
TEST_P(HostFallback, ReadsAValueInSeveralShapes) {
  const auto both = [] {
    const Tensor made = exp(input()), from_host = erf(made);
    const Tensor flat = reshape(made, {24}) * reshape(from_host, {24}), square = made - from_host * 2.0;
    return all_floats({exp(flat), exp(square), reshape(made, {6, 4})});
  };
  set_device("cpu");
  const Floats expected = both();
  set_device(GetParam());
  const Floats found = both();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

// Device and host take turns as seldom as possible, and the recorded program says which node is whose.
TEST_P(HostFallback, CutsWhereThePlaceChanges) {
  set_device(GetParam());
  const Tensor x = input();
  const RecordCompilations record;
  const Tensor a = exp(x), b = erf(a), c = erf(a * 2.0), d = exp(b + c);
  d.to_bytes();
  ASSERT_EQ(record.compilations().size(), 1u);
  const Compilation& compilation = *record.compilations()[0];
  std::vector<bool> on_host;
  for (const ProgramPiece& piece : compilation.pieces) on_host.push_back(piece.on_host);
  EXPECT_EQ(on_host, (std::vector<bool>{false, true, false}));
  const std::string text = print_graph(compilation.graph);
  EXPECT_NE(text.find("on_host"), std::string::npos) << text;
}

// What the device has is fused all the same, also after several graphs were refused for one operation.
TEST_P(HostFallback, LeavesTheRestFused) {
  set_device(GetParam());
  for (int i = 1; i <= 3; ++i) all_floats({exp(erf(input() * 0.5) + i) * 2.0, tanh(erf(input()) * 3.0) + i});
  const RecordCompilations record;
  all_floats({erf(exp(input()) * 5.0 + 1.0), exp(tanh(input()) * 7.0)});
  ASSERT_EQ(record.compilations().size(), 1u);
  const std::string text = print_graph(record.compilations()[0]->graph);
  EXPECT_NE(text.find(" = fusion("), std::string::npos) << text;
}

TEST_P(HostFallback, IsSaidOnceForEachOperation) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::kWarning) said.emplace_back(text);
  });
  set_device(GetParam());
  // An operation of which nothing was said before: see the list in partial_plugin.cpp.
  const Tensor x = scatter_add(input(), Tensor::from(std::vector<int64_t>{1}, {1}), full({1, 6}, 1.0), 0);
  const Tensor y = scatter_add(input(), Tensor::from(std::vector<int64_t>{1, 2}, {2}), full({2, 6}, 1.0), 0);
  x.to_bytes();
  y.to_bytes();
  const auto about = [](const std::string& text) { return text.find("scatter_add") != text.npos; };
  ASSERT_EQ(std::count_if(said.begin(), said.end(), about), 1);
  const std::string line = *std::find_if(said.begin(), said.end(), about);
  EXPECT_NE(line.find(GetParam() + ": scatter_add (f32[4, 6]"), std::string::npos) << line;
  EXPECT_NE(line.find("runs on the host"), std::string::npos) << line;
}

// Who asks for the device alone gets its refusal.
TEST_P(HostFallback, CanBeRefused) {
  const std::shared_ptr<Device> device = Device::open(GetParam());
  const Tensor x = make_input({DType::kFloat32, {3}});
  const Graph graph = make_graph({erf(x)}, {x});
  const std::string message = test::message_of([&] { const Program program(device, graph, {.host_fallback = false}); });
  EXPECT_NE(message.find("not supported: there is no kernel for erf"), std::string::npos) << message;
  const Program program(device, graph, {});
  EXPECT_EQ(program.pieces().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Devices, HostFallback, testing::Values("partial", "asked"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom
