// SPDX-License-Identifier: Apache-2.0
// The same layers make both passes, so that their operations pair up by the module that made them, by name and by
// order. Each is compared by itself: all values of a pass are results of its program.
#include "tools/certify/on_policy_trace.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "graph/ir/node.h"
#include "models/nn/attention/paged_cache.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/generation/engine/paged/paged_program.h"

namespace transom::certify {
namespace {

constexpr int64_t kBlock = 16;

// One text among the tokens of a pass, and what the pass computes of it.
struct TracedText {
  const char* name;
  std::vector<std::shared_ptr<Node>> nodes;  // in the order of their creation
  int64_t rows, length;                      // tokens of the pass
  int64_t first, count;                      // of the text among all tokens
};

std::vector<std::shared_ptr<Node>> nodes_of(const Tensor& result) {
  std::set<const Node*> seen;
  std::vector<std::shared_ptr<Node>> found, open{result.node()};
  while (!open.empty()) {
    const std::shared_ptr<Node> node = open.back();
    open.pop_back();
    if (is_input(*node) || node->computed(0) || !seen.insert(node.get()).second) continue;
    found.push_back(node);
    for (const Tensor& input : node->inputs) open.push_back(input.node());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  return found;
}

TracedText training_pass(const char* name, const GenerativeModel& model, const NamedTensors& inputs, int64_t rows,
                         int64_t length, int64_t first, int64_t count) {
  ForwardContext context{.computing = {.batch_invariant = true}};
  const Tensor logits = cast(model.forward(inputs, context).at("logits"), DType::kFloat32);
  return {name, nodes_of(logits), rows, length, first, count};
}

// The texts behind each other in one pass of the engine; `tokens` is the last.
TracedText engine_pass(const char* name, const GenerativeModel& model, const std::vector<std::vector<int64_t>>& texts) {
  const NoGradient inference;
  std::vector<int64_t> ids, positions, slots;
  std::vector<int32_t> tables, lengths;
  int64_t blocks = 0, most = 1;
  for (const auto& text : texts) most = std::max(most, (static_cast<int64_t>(text.size()) + kBlock - 1) / kBlock);
  for (const auto& text : texts) {
    const auto count = static_cast<int64_t>(text.size());
    for (int64_t place = 0; place < count; ++place) {
      ids.push_back(text[static_cast<size_t>(place)]);
      positions.push_back(place);
      slots.push_back(blocks * kBlock + place);
      lengths.push_back(static_cast<int32_t>(place + 1));
      for (int64_t block = 0; block < most; ++block) tables.push_back(static_cast<int32_t>(blocks + block));
    }
    blocks += most;
  }
  std::vector<KeysAndValues> pools;
  for (const KeyValueShape& shape : key_value_shapes(model)) {
    if (shape.is_state()) fail(ErrorKind::kUnsupported, "{} keeps states beside keys", model.architecture());
    pools.push_back({zeros({blocks * kBlock, shape.heads, shape.key_width}, shape.dtype),
                     zeros({blocks * kBlock, shape.heads, shape.value_width}, shape.dtype)});
  }
  const auto N = static_cast<int64_t>(ids.size());
  PagedCache cache(std::move(pools), kBlock,
                   {.slots = Tensor::from(slots, {N}),
                    .block_tables = Tensor::from(tables, {N, most}),
                    .lengths = Tensor::from(lengths, {N})});
  ForwardContext context{.cache = &cache, .computing = {.batch_invariant = true}};
  const Tensor logits = model.last_logits(
      {.input_ids = Tensor::from(ids, {1, N}), .position_ids = Tensor::from(positions, {1, N})}, N, context);
  const auto count = static_cast<int64_t>(texts.back().size());
  return {name, nodes_of(logits), 1, N, N - count, count};
}

// Bytes of the text's tokens, where the value has a row for each token of the pass.
struct TokenRows {
  std::vector<std::byte> bytes;
  DType dtype;
};

bool is_of_tokens(const TracedText& pass, const Type& type) {
  const Shape& shape = type.shape;
  const int64_t all = pass.rows * pass.length, each = elements(shape) / std::max<int64_t>(all, 1);
  if (each < 2 || !is_floating(type.dtype)) return false;
  return (shape.size() > 1 && shape[0] == pass.rows && shape[1] == pass.length) || shape[0] == all;
}

TokenRows rows_of_text(const TracedText& pass, const Tensor& value) {
  const std::vector<std::byte> bytes = value.to_bytes();
  const auto each = static_cast<int64_t>(bytes.size()) / (pass.rows * pass.length);
  return {{bytes.begin() + pass.first * each, bytes.begin() + (pass.first + pass.count) * each}, value.dtype()};
}

std::string name_of_node(const Node& node) {
  const std::string name(node.operation->name);
  return name.find("attention") != name.npos ? "attention" : name;  // to pages, in ranges, with sinks
}

// By module, name and how many there are, so that what one pass alone has does not shift the others.
std::map<std::string, std::vector<std::shared_ptr<Node>>> by_name(const TracedText& pass) {
  std::map<std::string, std::vector<std::shared_ptr<Node>>> named;
  for (const auto& node : pass.nodes)
    if (!node->operation->moves_only && !node->operation->view && is_of_tokens(pass, node->types[0]))
      named[fmt::format("{}: {}", *node->scope, name_of_node(*node))].push_back(node);
  return named;
}

double number_at(const TokenRows& rows, size_t at) {
  const Type type{rows.dtype, {1}};
  const size_t size = size_of(rows.dtype);
  std::vector<std::byte> one(rows.bytes.begin() + static_cast<ptrdiff_t>(at * size),
                             rows.bytes.begin() + static_cast<ptrdiff_t>((at + 1) * size));
  return Tensor::from_bytes(one, type).to_vector<double>()[0];
}

// Empty where they are equal.
std::string difference_of(const std::string& what, const TracedText& a, const Tensor& x, const TracedText& b,
                          const Tensor& y) {
  const TokenRows p = rows_of_text(a, x), q = rows_of_text(b, y);
  if (p.dtype != q.dtype)
    return fmt::format("{} is {} {} and {} {}", what, name_of(p.dtype), a.name, name_of(q.dtype), b.name);
  if (p.bytes.size() != q.bytes.size()) return "";  // another thing of the same name
  const size_t size = size_of(p.dtype), count = p.bytes.size() / size;
  for (size_t i = 0; i < count; ++i)
    if (std::memcmp(p.bytes.data() + i * size, q.bytes.data() + i * size, size) != 0) {
      const double first = number_at(p, i), second = number_at(q, i);
      if (first == second) continue;  // zeros of two signs
      return fmt::format("{} at token {}: {:.9g} {} and {:.9g} {}", what,
                         static_cast<int64_t>(i) / (static_cast<int64_t>(count) / a.count), first, a.name, second,
                         b.name);
    }
  return "";
}

std::string first_difference_of(const TracedText& a, const TracedText& b) {
  const auto of_a = by_name(a), of_b = by_name(b);
  struct Pair {
    uint64_t order;
    const std::string* name;
    Tensor x, y;
  };
  std::vector<Pair> pairs;
  std::vector<Tensor> values_of_a, values_of_b;
  for (const auto& [name, nodes] : of_a) {
    const auto other = of_b.find(name);
    if (other == of_b.end() || other->second.size() != nodes.size()) continue;
    for (size_t i = 0; i < nodes.size(); ++i) {
      pairs.push_back({nodes[i]->sequence, &name, Tensor(nodes[i], 0), Tensor(other->second[i], 0)});
      values_of_a.push_back(pairs.back().x), values_of_b.push_back(pairs.back().y);
    }
  }
  eval(values_of_a);
  eval(values_of_b);
  std::sort(pairs.begin(), pairs.end(), [](const Pair& p, const Pair& q) { return p.order < q.order; });
  for (const Pair& pair : pairs)
    if (std::string text = difference_of(*pair.name, a, pair.x, b, pair.y); !text.empty()) return text;
  return "";
}

}  // namespace

std::string first_difference(const GenerativeModel& model, const TrainedText& trained,
                             const std::vector<int64_t>& company) {
  const auto count = static_cast<int64_t>(trained.tokens.size());
  const auto beside_others = [&] {
    return training_pass("beside others in training", model, trained.inputs, trained.rows, trained.length,
                         trained.row * trained.length + trained.begin, count);
  };
  const auto alone = [&] {
    const NamedTensors inputs{{"input_ids", Tensor::from(trained.tokens, {1, count})}};
    return training_pass("alone in training", model, inputs, 1, count, 0, count);
  };
  const auto by_engine = [&] { return engine_pass("alone by the engine", model, {trained.tokens}); };
  const auto in_company = [&] { return engine_pass("in company by the engine", model, {company, trained.tokens}); };
  // Values that are computed let go of what they were made of, so that each comparison traces its passes anew.
  if (std::string text = first_difference_of(beside_others(), alone()); !text.empty()) return text;
  if (std::string text = first_difference_of(alone(), by_engine()); !text.empty()) return text;
  if (std::string text = first_difference_of(by_engine(), in_company()); !text.empty()) return text;
  return "each operation is equal by itself: the difference is of the program that joins them, or of log_softmax and "
         "cross_entropy";
}

}  // namespace transom::certify
