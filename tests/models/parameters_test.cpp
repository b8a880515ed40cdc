// SPDX-License-Identifier: Apache-2.0
// The parameters of modules that users write.
#include "transom/parameters.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/layers.h"

namespace transom {
namespace {

struct Block {
  explicit Block(const Scope& scope, int64_t width = 4)
      : dense(scope / "dense", width, width), norm(scope / "norm", width, 1e-5) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const { return norm(dense(x, context), context); }
  Linear dense;
  LayerNorm norm;
};

std::vector<float> answer(const Block& block) {
  ForwardContext context;
  return block(Tensor::from(std::vector<float>{1, 2, 3, 5}, {1, 4}), context).to_vector<float>();
}

TEST(ParameterSet, NamesAreThePathsOfTheModules) {
  ParameterSet parameters;
  const Block first(Scope(parameters) / "layers" / 0), second(Scope(parameters) / "layers" / 1);
  std::vector<std::string> names;
  for (const auto& parameter : parameters.all()) names.push_back(parameter->name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.dense.weight", "layers.0.dense.bias", "layers.0.norm.weight",
                                             "layers.0.norm.bias", "layers.1.dense.weight", "layers.1.dense.bias",
                                             "layers.1.norm.weight", "layers.1.norm.bias"}));
  for (const auto& parameter : parameters.all()) EXPECT_TRUE(parameter->value.requires_grad());
}

TEST(ParameterSet, ASeedGivesOneSetOfValues) {
  ParameterSet one(7), same(7), other(8);
  const Block a(one), b(same), c(other);
  EXPECT_EQ(answer(a), answer(b));
  EXPECT_NE(answer(a), answer(c));
}

TEST(ParameterSet, TwoModulesOfOneNameAreRefused) {
  ParameterSet parameters;
  const Block block(parameters);
  EXPECT_NE(test::message_of([&] { Block again(parameters); }).find("dense.weight"), std::string::npos);
  EXPECT_NE(test::message_of([&] {
              Linear(Scope(parameters) / "huge", int64_t{1} << 40, int64_t{1} << 40);
            }).find("huge.weight"),
            std::string::npos);
}

TEST(ParameterSet, FilesBringValuesBack) {
  const test::TemporaryFolder folder;
  ParameterSet one(1), two(2);
  const Block a(one), b(two);
  const BatchNorm statistics(Scope(one) / "bn", 3), others(Scope(two) / "bn", 3);
  one.save(folder / "p.safetensors");
  two.all()[0]->value.set_requires_grad(false);
  two.load(folder / "p.safetensors");
  EXPECT_EQ(answer(a), answer(b));
  EXPECT_FALSE(two.all()[0]->value.requires_grad());
  EXPECT_TRUE(two.all()[1]->value.requires_grad());
  EXPECT_EQ(two.buffers().size(), 3u);
}

TEST(ParameterSet, FilesOfOtherModulesChangeNothing) {
  const test::TemporaryFolder folder;
  ParameterSet wide(1), narrow(2), more(3);
  const Block a(wide, 8), b(narrow, 4), c(more, 4);
  const Linear extra(Scope(more) / "extra", 2, 2);
  const std::vector<float> before = answer(b);
  wide.save(folder / "wide.safetensors");
  narrow.save(folder / "narrow.safetensors");
  more.save(folder / "more.safetensors");
  const auto fails = [&](ParameterSet& set, const char* file, const char* part) {
    const std::string message = test::message_of([&] { set.load(folder / file); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(file), std::string::npos) << message;
  };
  fails(narrow, "wide.safetensors", "expected f32[4, 4], found f32[8, 8]");
  fails(narrow, "more.safetensors", "belongs to no module");
  fails(more, "narrow.safetensors", "'extra.weight' is missing");
  fails(narrow, "nowhere.safetensors", "");
  std::string cut = read_file(folder / "narrow.safetensors");
  cut.resize(cut.size() - 5);
  folder.write("cut.safetensors", cut);
  fails(narrow, "cut.safetensors", "");
  EXPECT_EQ(answer(b), before);
}

}  // namespace
}  // namespace transom
