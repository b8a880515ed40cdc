// SPDX-License-Identifier: Apache-2.0
// Recipes on disk. A file is valid for one generation and one version of the emulator; what is read is checked as
// hostile.
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "configuration.h"
#include "recipe.h"

namespace synapse_emulator {
namespace {

constexpr const char* kMagic = "TRANSOM-SYNAPSE-EMULATOR-RECIPE-1";
constexpr uint64_t kMost = uint64_t{1} << 32;

class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) {}
  void number(uint64_t value) { out_.write(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(const std::string& value) { bytes(value.data(), value.size()); }
  void bytes(const char* data, size_t size) {
    number(size);
    out_.write(data, static_cast<std::streamsize>(size));
  }
  void sizes(const Sizes& value) {
    number(static_cast<uint64_t>(value.rank));
    for (int dim = 0; dim < value.rank; ++dim) number(static_cast<uint64_t>(value[dim]));
  }

 private:
  std::ostream& out_;
};

class Reader {
 public:
  Reader(std::string data, std::string path) : data_(std::move(data)), path_(std::move(path)) {}
  void require(bool condition, const char* what) const {
    if (!condition) throw Failure{synFail, path_ + ": " + what};
  }
  uint64_t number(uint64_t most = kMost) {
    uint64_t value = 0;
    require(data_.size() - at_ >= sizeof value, "the recipe is cut short");
    std::memcpy(&value, data_.data() + at_, sizeof value);
    at_ += sizeof value;
    require(value <= most, "the recipe is damaged");
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    require(size <= data_.size() - at_, "the recipe is cut short");
    std::string value = data_.substr(at_, size);
    at_ += size;
    return value;
  }
  Sizes sizes() {
    Sizes value;
    value.rank = static_cast<int>(number(kMostDims));
    for (int dim = 0; dim < value.rank; ++dim)
      value.size[static_cast<size_t>(dim)] = static_cast<int64_t>(number(uint64_t{1} << 46));
    require(countable(value), "a tensor is too large");
    return value;
  }
  bool at_end() const { return at_ == data_.size(); }

 private:
  std::string data_, path_;
  size_t at_ = 0;
};

// The next tensor of the recipe.
RecipeTensor read_tensor(Reader& in, const Recipe& recipe) {
  RecipeTensor tensor;
  tensor.name = in.text();
  tensor.kind = static_cast<synTensorType>(in.number(SHAPE_TENSOR));
  tensor.type = static_cast<synDataType>(in.number());
  in.require(size_of(tensor.type) > 0, "an unknown data type");
  tensor.sizes = in.sizes();
  tensor.home = static_cast<Home>(in.number(2));
  tensor.offset = in.number(uint64_t{1} << 46);
  tensor.section = static_cast<uint32_t>(in.number());
  tensor.is_input = in.number(1) != 0;
  tensor.external = in.number(1) != 0;
  const std::string order = in.text();
  in.require(order.empty() || order.size() == static_cast<size_t>(tensor.sizes.rank), "a damaged permutation");
  tensor.permutation.assign(order.begin(), order.end());
  std::set<uint8_t> dims;
  for (const uint8_t dim : tensor.permutation)
    in.require(dim < order.size() && dims.insert(dim).second, "a damaged permutation");
  if (in.number(1) != 0) {
    const std::string data = in.text();
    in.require(data.size() == tensor.bytes(), "a damaged constant");
    tensor.constant = std::make_shared<std::vector<char>>(data.begin(), data.end());
  }
  in.require((tensor.home == Home::kLaunch) == (recipe.tensors.size() < recipe.launch_tensors), "damaged tensors");
  in.require(tensor.home != Home::kConstant || tensor.constant, "a constant without data");
  in.require(tensor.home != Home::kLaunch || tensor.section < recipe.sections.size(), "a damaged section");
  in.require(tensor.home != Home::kWorkspace || tensor.kind != DATA_TENSOR ||
                 tensor.offset + tensor.bytes() <= recipe.workspace,
             "a tensor outside of the workspace");
  return tensor;
}

// A node of the recipe, whose tensors are all read.
RecipeNode read_node(Reader& in, const Recipe& recipe) {
  GraphNode checked;
  checked.guid = in.text();
  checked.name = in.text();
  const std::string params = in.text();
  checked.params.assign(params.begin(), params.end());
  std::string why;
  checked.kernel = find_kernel(checked.guid, checked.type, why);
  in.require(checked.kernel != nullptr, "an unknown kernel");
  RecipeNode node;
  for (auto* list : {&node.in, &node.out}) {
    for (uint64_t operands = in.number(64), j = 0; j < operands; ++j) {
      const uint64_t tensor = in.number(recipe.tensors.size());
      list->push_back(static_cast<int32_t>(tensor) - 1);
      std::shared_ptr<Tensor> operand;
      if (tensor > 0) {
        const RecipeTensor& described = recipe.tensors[tensor - 1];
        in.require(list == &node.in || described.home != Home::kConstant, "a constant that is written");
        operand = std::make_shared<Tensor>();
        operand->kind = described.kind;
        operand->type = described.type;
        operand->sizes = described.sizes;
      }
      (list == &node.in ? checked.inputs : checked.outputs).push_back(operand);
    }
  }
  check_node(checked);
  node.guid = checked.guid;
  node.name = checked.name;
  node.kernel = checked.kernel;
  node.view = view_of(checked);
  return node;
}

}  // namespace

void write_recipe(const Recipe& recipe, const std::string& path) {
  std::ostringstream stream;
  Writer out(stream);
  out.text(kMagic);
  out.text(configuration().generation.name);
  out.text(recipe.name);
  out.number(recipe.workspace);
  out.number(recipe.launch_tensors);
  out.number(recipe.sections.size());
  for (const RecipeSection& section : recipe.sections) {
    out.number(section.constant);
    out.bytes(section.data.data(), section.data.size());
  }
  out.number(recipe.tensors.size());
  for (const RecipeTensor& tensor : recipe.tensors) {
    out.text(tensor.name);
    out.number(static_cast<uint64_t>(tensor.kind));
    out.number(static_cast<uint64_t>(tensor.type));
    out.sizes(tensor.sizes);
    out.number(static_cast<uint64_t>(tensor.home));
    out.number(tensor.offset);
    out.number(tensor.section);
    out.number(tensor.is_input);
    out.number(tensor.external);
    out.bytes(reinterpret_cast<const char*>(tensor.permutation.data()), tensor.permutation.size());
    out.number(tensor.constant != nullptr);
    if (tensor.constant) out.bytes(tensor.constant->data(), tensor.constant->size());
  }
  out.number(recipe.nodes.size());
  for (const RecipeNode& node : recipe.nodes) {
    out.text(node.guid);
    out.text(node.name);
    out.bytes(node.view.params.data(), node.view.params.size());
    for (const auto* list : {&node.in, &node.out}) {
      out.number(list->size());
      for (const int32_t tensor : *list) out.number(static_cast<uint64_t>(tensor + 1));
    }
  }
  const std::string temporary = path + ".part";
  {
    std::ofstream file(temporary, std::ios::binary);
    const std::string data = stream.str();
    file.write(data.data(), static_cast<std::streamsize>(data.size()));
    if (!file.flush()) throw Failure{synFail, "cannot write " + path};
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) throw Failure{synFail, "cannot write " + path};
}

std::shared_ptr<Recipe> read_recipe(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure{synFail, "cannot open " + path};
  std::ostringstream all;
  all << file.rdbuf();
  Reader in(all.str(), path);
  in.require(in.text() == kMagic, "no recipe of this emulator");
  in.require(in.text() == configuration().generation.name, "a recipe for another generation");
  auto recipe = std::make_shared<Recipe>();
  recipe->name = in.text();
  recipe->workspace = in.number(uint64_t{1} << 46);
  recipe->launch_tensors = static_cast<uint32_t>(in.number());
  for (uint64_t count = in.number(), i = 0; i < count; ++i) {
    RecipeSection section;
    section.constant = in.number(1) != 0;
    const std::string data = in.text();
    section.data.assign(data.begin(), data.end());
    recipe->sections.push_back(std::move(section));
  }
  for (uint64_t count = in.number(), i = 0; i < count; ++i) {
    recipe->tensors.push_back(read_tensor(in, *recipe));
  }
  in.require(recipe->launch_tensors <= recipe->tensors.size(), "damaged tensors");
  for (uint64_t count = in.number(), i = 0; i < count; ++i) {
    recipe->nodes.push_back(read_node(in, *recipe));
  }
  in.require(in.at_end(), "bytes after the end of the recipe");
  estimate(*recipe);
  return recipe;
}

}  // namespace synapse_emulator
