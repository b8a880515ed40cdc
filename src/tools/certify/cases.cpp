// SPDX-License-Identifier: Apache-2.0
#include "tools/certify/cases.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "base/error.h"
#include "transom/ops.h"

namespace transom::certify {
namespace {

constexpr std::array kFloats = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64};
constexpr std::array kIntegers = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUInt8, DType::kUInt32};
constexpr int64_t kMostElements = 1 << 14;

// These tell the compiler something and compute nothing, or have no record to compute by.
bool is_placeholder(const Operation& operation) {
  return operation.name == "input" || operation.name == "fusion" || operation.name == "row_fusion" ||
         operation.name == "checkpoint" || operation.name == "on_host";
}

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether the operation's own rule takes the sample.
bool is_valid(const Operation& operation, const Sample& sample) {
  try {
    int64_t total = 0;
    for (const Type& type : sample.inputs) total = std::max(total, elements(type.shape));
    for (const Type& type : operation.infer({operation, sample.inputs, sample.attributes}))
      total = std::max(total, elements(type.shape));
    return total <= kMostElements;
  } catch (const Error&) {
    return false;
  }
}

bool same(const Sample& a, const Sample& b) { return a.inputs == b.inputs && a.attributes == b.attributes; }

// The sample with its floating inputs in another type.
Sample in_dtype(Sample sample, DType dtype) {
  for (Type& type : sample.inputs)
    if (is_floating(type.dtype)) type.dtype = dtype;
  if (sample.attributes.has("dtype") && !sample.inputs.empty() &&
      is_floating(static_cast<DType>(sample.attributes.get_int("dtype"))))
    sample.attributes.set("dtype", static_cast<int64_t>(dtype));
  return sample;
}

// The sample with larger extents: equal ones stay equal, 0 and 1 stay, and none becomes smaller, so that what was a
// valid index, window or count remains one.
Sample enlarged(Sample sample, std::mt19937_64& random) {
  size_t rank = 0;
  for (const Type& type : sample.inputs) rank = std::max(rank, type.shape.size());
  const int64_t reach = rank >= 4 ? 4 : rank == 3 ? 12 : 60;
  std::map<int64_t, int64_t> larger;
  const auto grow = [&](int64_t& extent) {
    if (extent < 2) return;
    auto found = larger.find(extent);
    if (found == larger.end())
      found = larger.emplace(extent, extent + std::uniform_int_distribution<int64_t>(0, reach)(random)).first;
    extent = found->second;
  };
  const Type key{DType::kInt64, {2}};  // of random numbers
  for (Type& type : sample.inputs)
    if (type != key)
      for (int64_t& extent : type.shape) grow(extent);
  if (sample.attributes.has("shape")) {
    Shape shape = sample.attributes.get_ints("shape");
    for (int64_t& extent : shape) grow(extent);
    sample.attributes.set("shape", shape);
  }
  return sample;
}

Shape random_shape(std::mt19937_64& random) {
  static constexpr std::array<int64_t, 12> kExtents = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 65};
  Shape shape(random() % 5);
  for (int64_t& extent : shape) extent = kExtents[random() % kExtents.size()];
  return shape;
}

void add_samples(const Operation& operation, std::mt19937_64& random, std::vector<Case>& cases) {
  std::vector<Sample> samples = operation.samples();
  const auto add = [&](Sample sample) {
    if (is_valid(operation, sample) &&
        std::none_of(samples.begin(), samples.end(), [&](const Sample& s) { return same(s, sample); }))
      samples.push_back(std::move(sample));
  };
  const std::vector<Sample> own = samples;
  // The losses of CTC are sums of numbers that float16 cannot hold.
  const bool ctc = operation.name.starts_with("ctc_loss");
  if (operation.name != "cast")
    for (const Sample& sample : own)
      for (const DType dtype : kFloats)
        if (!ctc || dtype != DType::kFloat16) add(in_dtype(sample, dtype));
  if (operation.elementwise && operation.name != "cast") {
    for (const DType dtype : kIntegers) {
      Sample sample = own.front();
      for (Type& type : sample.inputs) {
        if (type.dtype != DType::kBool || operation.name != "select") type.dtype = dtype;
        type.shape = {4, 9};
      }
      sample.index_limit = 100;
      add(sample);
    }
    for (int i = 0; i < 4; ++i) {
      Sample sample = own[random() % own.size()];
      const Shape shape = random_shape(random);
      for (Type& type : sample.inputs) type.shape = shape;
      add(sample);
    }
  } else if (!ctc) {
    for (int i = 0; i < 6; ++i) add(enlarged(own[random() % own.size()], random));
  }
  for (const Sample& sample : samples) cases.push_back({&operation, sample, Values::kUniform, nullptr});

  const bool ordered = one_of(operation.name, {"arg_max", "arg_min", "sort", "top_k", "max", "min", "reduce_max",
                                               "reduce_min", "max_pool", "equal", "less", "greater_equal"});
  const bool takes_specials =
      (operation.elementwise && operation.kind == OperationKind::kPrimitive && operation.name != "cast") ||
      one_of(operation.name, {"reduce_max", "reduce_min", "sort", "reshape", "permute", "gather", "concatenate"});
  std::map<DType, int> tried;
  for (const Sample& sample : samples) {
    if (sample.inputs.empty() || (elements(sample.inputs[0].shape) < 6 && operation.name != "random_bits")) continue;
    Case c{&operation, sample, Values::kUniform, nullptr};
    if (tried[c.dtype()]++ >= 2) continue;
    const auto also = [&](Values values) {
      c.values = values;
      cases.push_back(c);
    };
    if (ordered) also(Values::kTies);
    if (takes_specials && is_floating(c.dtype())) also(Values::kSpecial);
    if (one_of(operation.name, {"dynamic_slice", "dynamic_update_slice", "random_bits"}) ||
        (operation.elementwise && !is_floating(c.dtype()) && c.dtype() != DType::kBool))
      also(Values::kWide);
  }
}

// A chain of element-wise operations on x and, repeated along the rows, y.
Case chain(DType dtype, std::mt19937_64& random) {
  const Shape shape = {1 + static_cast<int64_t>(random() % 20), 1 + static_cast<int64_t>(random() % 70)};
  const Tensor x = make_input({dtype, shape}), y = make_input({dtype, {shape[1]}});
  const Tensor rows = broadcast_to(reshape(y, {1, shape[1]}), shape);
  Tensor value = x;
  const size_t length = 2 + random() % 6;
  for (size_t i = 0; i < length; ++i) {
    switch (random() % 8) {
      case 0:
        value = value + rows;
        break;
      case 1:
        value = value * 0.75 - x;
        break;
      case 2:
        value = tanh(value);
        break;
      case 3:
        value = maximum(value, rows);
        break;
      case 4:
        value = exp(-abs(value));
        break;
      case 5:
        value = select(greater(rows, x), value, x);
        break;
      case 6:
        value = value / (abs(rows) + 1.0);
        break;
      default:
        value = sqrt(abs(value) + 0.5);
        break;
    }
  }
  Case c;
  c.operation = &find_operation("fusion");
  c.sample.inputs = {x.type(), y.type()};
  c.graph = std::make_shared<const Graph>(make_graph({value}, {x, y}));
  return c;
}

double special(std::mt19937_64& random, DType dtype) {
  const double largest = dtype == DType::kFloat16    ? 65504
                         : dtype == DType::kBFloat16 ? 0x1.FEp127
                         : dtype == DType::kFloat32  ? 0x1.FFFFFEp127
                                                     : std::numeric_limits<double>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::array numbers = {std::numeric_limits<double>::quiet_NaN(),
                              infinity,
                              -infinity,
                              0.0,
                              -0.0,
                              largest,
                              -largest,
                              1.0,
                              -1.0,
                              0.5,
                              2.5,
                              -3.5};
  return numbers[random() % numbers.size()];
}

}  // namespace

std::string Case::operation_name() const { return std::string(operation->name); }

DType Case::dtype() const {
  for (const Type& type : sample.inputs)
    if (is_floating(type.dtype)) return type.dtype;
  if (!sample.inputs.empty()) return sample.inputs.back().dtype;
  return operation->infer({*operation, sample.inputs, sample.attributes})[0].dtype;
}

std::string Case::text() const {
  std::string result = operation_name() + "(" + to_string(sample.inputs) + ")";
  if (const std::string attributes = to_string(sample.attributes); !attributes.empty())
    result += " {" + attributes + "}";
  static constexpr std::array kNames = {"", ", ties", ", special values", ", wide values"};
  return result + kNames[static_cast<size_t>(values)];
}

std::vector<Case> all_cases(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Case> cases;
  for (const Operation* operation : all_operations()) {
    if (!is_placeholder(*operation)) add_samples(*operation, random, cases);
    if (operation->name == "fusion")
      for (int i = 0; i < 8; ++i)
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) cases.push_back(chain(dtype, random));
  }
  return cases;
}

Graph graph_of(const Case& c) {
  if (c.graph) return *c.graph;
  std::vector<Tensor> leaves;
  for (const Type& type : c.sample.inputs) leaves.push_back(make_input(type));
  return make_graph(make_tensors(*c.operation, leaves, c.sample.attributes), leaves);
}

std::vector<Array> inputs_of(const Case& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(c.sample.low, c.sample.high);
  const std::string_view name = c.operation->name;
  std::vector<Array> arrays;
  for (size_t i = 0; i < c.sample.inputs.size(); ++i) {
    const Type& type = c.sample.inputs[i];
    Array& array = arrays.emplace_back(type);
    std::uniform_int_distribution<int64_t> integer(0, (type.dtype == DType::kBool ? 2 : c.sample.index_limit) - 1);
    for (double& x : array.real) {
      if (c.values == Values::kTies) x = static_cast<double>(static_cast<int64_t>(random() % 4)) - 1;
      else if (c.values == Values::kSpecial && random() % 2) x = special(random, type.dtype);
      else x = real(random);
    }
    for (int64_t& x : array.integer) {
      x = integer(random);
      if (c.values != Values::kWide || type.dtype == DType::kBool) continue;
      if (name == "random_bits") x = static_cast<int64_t>(random());
      else if (name.starts_with("dynamic_")) x = static_cast<int64_t>(random() % 60) - 20;
      else if (type.dtype == DType::kUInt8 || type.dtype == DType::kUInt32) x = static_cast<int64_t>(random() % 200);
      else x = static_cast<int64_t>(random() % 201) - 100;
    }
    // Nothing is promised for a division by nothing, or for what a power of integers overflows to.
    if (i == 1 && (name == "div" || name == "remainder"))
      for (int64_t& x : array.integer)
        if (x == 0) x = 3;
    if (i == 1 && name == "pow")
      for (int64_t& x : array.integer) x = (x % 4 + 4) % 4;
  }
  return arrays;
}

}  // namespace transom::certify
