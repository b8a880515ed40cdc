// SPDX-License-Identifier: Apache-2.0
// What every operation record must keep, tried with its own samples.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "graph/ops/rules.h"
#include "support/finite_differences.h"
#include "support/folders.h"
#include "support/message.h"

namespace transom {
namespace {

using test::evaluate_operation;
using test::Leaf;

// An input has no rule, and what a region computes is not the record's to say.
bool is_placeholder(const Operation& operation) {
  return operation.name == "input" || operation.name == "fusion" || operation.name == "row_fusion" ||
         operation.name == "checkpoint" || operation.name == "on_host";
}

std::vector<const Operation*> computing_operations(std::initializer_list<OperationKind> kinds) {
  std::vector<const Operation*> result;
  for (const Operation* operation : all_operations())
    if (!is_placeholder(*operation) && std::find(kinds.begin(), kinds.end(), operation->kind) != kinds.end())
      result.push_back(operation);
  return result;
}

class Records : public testing::TestWithParam<const Operation*> {
 protected:
  const Operation& operation() const { return *GetParam(); }
  std::mt19937_64 random_{20240607};
};

class Primitives : public Records {};
class Composites : public Records {};

std::string describe(const Operation& operation, const Sample& sample) {
  std::string text = std::string(operation.name) + "(";
  for (const Type& type : sample.inputs) text += to_string(type) + " ";
  return text + ") {" + to_string(sample.attributes) + "}";
}

std::vector<Tensor> leaves_of(const Sample& sample) {
  std::vector<Tensor> leaves;
  for (const Type& type : sample.inputs) leaves.push_back(make_input(type));
  return leaves;
}

TEST_P(Records, AreComplete) {
  EXPECT_FALSE(operation().documentation.empty());
  EXPECT_NE(operation().infer, nullptr);
  EXPECT_EQ(operation().evaluate != nullptr, operation().kind == OperationKind::kPrimitive);
  EXPECT_EQ(operation().decompose != nullptr, operation().kind == OperationKind::kComposite);
  ASSERT_NE(operation().samples, nullptr);
  EXPECT_FALSE(operation().samples().empty());
  EXPECT_EQ(&find_operation(operation().name), &operation());
}

// The arrays are filled with nonsense first: `evaluate` has to write every element.
TEST_P(Primitives, ShapeRuleGivesWhatIsComputed) {
  for (const Sample& sample : operation().samples()) {
    SCOPED_TRACE(describe(operation(), sample));
    const std::vector<Array> inputs = test::random_inputs(sample, random_);
    const std::vector<Type> types = operation().infer({operation(), sample.inputs, sample.attributes});
    std::vector<std::vector<Array>> results;
    for (const int nonsense : {77, -99}) {
      std::vector<Array>& outputs = results.emplace_back();
      for (const Type& type : types) {
        Array& array = outputs.emplace_back(type);
        for (int64_t i = 0; i < elements(type.shape); ++i) array.set(i, nonsense);
      }
      operation().evaluate(inputs, sample.attributes, outputs);
    }
    for (size_t i = 0; i < types.size(); ++i) {
      EXPECT_EQ(results[0][i].type, types[i]);
      EXPECT_EQ(results[0][i].real.size() + results[0][i].integer.size(),
                static_cast<size_t>(elements(types[i].shape)));
      EXPECT_EQ(results[0][i].real, results[1][i].real);
      EXPECT_EQ(results[0][i].integer, results[1][i].integer);
    }
    for (const Type& type : types) EXPECT_TRUE(!operation().elementwise || type.shape == sample.inputs[0].shape);
  }
}

TEST_P(Composites, DecompositionHasTheTypesOfTheRule) {
  for (const Sample& sample : operation().samples()) {
    SCOPED_TRACE(describe(operation(), sample));
    std::vector<Type> found;
    for (const Tensor& output : operation().decompose(leaves_of(sample), sample.attributes))
      found.push_back(output.type());
    EXPECT_EQ(found, operation().infer({operation(), sample.inputs, sample.attributes}));
  }
}

TEST_P(Records, GraphReadsBackFromItsText) {
  for (const Sample& sample : operation().samples()) {
    SCOPED_TRACE(describe(operation(), sample));
    const std::vector<Tensor> leaves = leaves_of(sample);
    const Graph graph = make_graph(make_tensors(operation(), leaves, sample.attributes), leaves);
    verify(graph);
    const std::string text = print_graph(graph);
    const Graph again = parse_graph(text);
    verify(again);
    EXPECT_EQ(print_graph(again), text);
    EXPECT_EQ(structural_key(again), structural_key(graph));
  }
}

// ---- gradients

// The samples with every floating type made f64; those that become the same are tried once.
std::vector<Sample> in_float64(const Operation& operation) {
  std::vector<Sample> result;
  for (Sample sample : operation.samples()) {
    bool floating = false;
    for (Type& type : sample.inputs)
      if (is_floating(type.dtype)) type.dtype = DType::kFloat64, floating = true;
    if (!floating) continue;
    if (sample.attributes.has("dtype") && is_floating(static_cast<DType>(sample.attributes.get_int("dtype"))))
      sample.attributes.set("dtype", static_cast<int64_t>(DType::kFloat64));
    const bool known = std::any_of(result.begin(), result.end(), [&](const Sample& other) {
      return other.inputs == sample.inputs && other.attributes == sample.attributes;
    });
    if (!known) result.push_back(std::move(sample));
  }
  return result;
}

bool any_floating(const std::vector<Type>& types) {
  return std::any_of(types.begin(), types.end(), [](const Type& type) { return is_floating(type.dtype); });
}

std::vector<Leaf> random_leaves(const Sample& sample, std::mt19937_64& random) {
  std::vector<Leaf> leaves;
  for (Array& array : test::random_inputs(sample, random)) leaves.push_back(test::leaf(std::move(array)));
  return leaves;
}

std::vector<Tensor> applied(const Operation& operation, const Sample& sample, const std::vector<Leaf>& leaves) {
  std::vector<Tensor> tensors;
  for (const Leaf& l : leaves) tensors.push_back(l.tensor);
  return make_tensors(operation, tensors, sample.attributes);
}

TEST_P(Records, GradientsAgreeWithCentralDifferences) {
  for (const Sample& sample : in_float64(operation())) {
    SCOPED_TRACE(describe(operation(), sample));
    if (operation().stops_gradient || !any_floating(operation().infer({operation(), sample.inputs, sample.attributes})))
      continue;
    const std::vector<Leaf> leaves = random_leaves(sample, random_);
    test::expect_central_differences(applied(operation(), sample, leaves), leaves, random_);
  }
}

// The gradients, as functions of the inputs and of their own cotangents, differentiated once more.
TEST_P(Records, SecondGradientsAgreeWithCentralDifferences) {
  for (const Sample& sample : in_float64(operation())) {
    SCOPED_TRACE(describe(operation(), sample));
    if (operation().stops_gradient || !any_floating(operation().infer({operation(), sample.inputs, sample.attributes})))
      continue;
    std::vector<Leaf> leaves = random_leaves(sample, random_);
    size_t size = 0;
    for (const Leaf& l : leaves) size += l.value.real.size();
    if (size == 0 || size > 300) continue;
    const test::RandomGradients first = test::random_gradients(applied(operation(), sample, leaves), leaves, random_);
    leaves.insert(leaves.end(), first.cotangents.begin(), first.cotangents.end());
    test::expect_central_differences(first.gradients, leaves, random_);
  }
}

std::string name_of_case(const testing::TestParamInfo<const Operation*>& info) { return std::string(info.param->name); }

constexpr auto kPrimitive = OperationKind::kPrimitive, kComposite = OperationKind::kComposite;
INSTANTIATE_TEST_SUITE_P(All, Records, testing::ValuesIn(computing_operations({kPrimitive, kComposite})), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, Primitives, testing::ValuesIn(computing_operations({kPrimitive})), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, Composites, testing::ValuesIn(computing_operations({kComposite})), name_of_case);

TEST(Placeholders, AreTheOnlyRecordsThatComputeNothing) {
  for (const Operation* operation : all_operations())
    if (is_placeholder(*operation)) {
      EXPECT_FALSE(operation->documentation.empty()) << operation->name;
      EXPECT_FALSE(operation->evaluate || operation->decompose) << operation->name;
    }
}

TEST(OperationList, IsSortedAndWithoutRepeats) {
  const auto operations = all_operations();
  for (size_t i = 1; i < operations.size(); ++i) EXPECT_LT(operations[i - 1]->name, operations[i]->name);
}

TEST(OperationList, StandsInTheDocumentation) {
  std::ifstream file(test::source_folder() + "/docs/ops/README.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty());
  for (const Operation* operation : all_operations()) {
    if (operation->name == "input") continue;
    const std::regex word("`([a-z0-9_]+ )*" + std::string(operation->name) + "( [a-z0-9_]+)*`");
    EXPECT_TRUE(std::regex_search(text, word)) << operation->name;
  }
}

TEST(OperationList, RefusesUnknownNamesWithASuggestion) {
  const std::string message = test::message_of([] { find_operation("sofmax"); });
  EXPECT_NE(message.find("did you mean 'softmax'"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
