// SPDX-License-Identifier: Apache-2.0
#include "hpu/recipe/recipe.h"

#include <algorithm>

namespace transom::hpu {
namespace {

// The library's graph under construction; everything it made goes with it.
class Builder {
 public:
  Builder(const SynapseLibrary& library, const RecipeGraph& graph, synDeviceType device, bool eager)
      : library_(library), source_(graph) {
    library.expect(eager ? library.synGraphCreateEager(&graph_, device) : library.synGraphCreate(&graph_, device),
                   "creating a graph");
  }
  ~Builder() {
    for (synSectionHandle section : sections_)
      if (section) library_.synSectionDestroy(section);
    library_.synGraphDestroy(graph_);
  }

  void build() {
    sections_.resize(source_.tensors.size());
    std::vector<bool> used(source_.tensors.size(), false);
    for (const NodeSpec& node : source_.nodes)
      for (const auto* list : {&node.inputs, &node.outputs})
        for (const int tensor : *list)
          if (tensor != kNoTensor) used[static_cast<size_t>(tensor)] = true;
    for (size_t i = 0; i < source_.tensors.size(); ++i) tensors_.push_back(used[i] ? make_tensor(i) : nullptr);
    for (size_t i = 0; i < source_.nodes.size(); ++i) ids_.push_back(make_node(i));
    for (size_t i = 0; i < source_.tensors.size(); ++i)
      if (source_.tensors[i].same_section >= 0) write_after_reads(static_cast<int>(i));
  }

  synRecipeHandle compile(const std::string& name) {
    synRecipeHandle recipe = nullptr;
    if (library_.synGraphCompileV2 && library_.synErrorGetMessage && library_.synErrorGetMessageLength) {
      synErrorHandle error = nullptr;
      const synStatus status = library_.synGraphCompileV2(&recipe, graph_, name.c_str(), &error);
      std::string text;
      size_t length = 0;
      if (error && library_.synErrorGetMessageLength(error, &length) == synSuccess && length) {
        text.resize(length + 1);
        library_.synErrorGetMessage(error, text.data(), text.size());
        text.resize(text.find('\0'));
      }
      if (error && library_.synErrorDestroy) library_.synErrorDestroy(error);
      if (status != synSuccess)
        fail(status_of(status), "compiling {}: {}{}{}", name, library_.describe(status), text.empty() ? "" : ": ",
             text);
      return recipe;
    }
    library_.expect(library_.synGraphCompile(&recipe, graph_, name.c_str(), nullptr), ("compiling " + name).c_str());
    return recipe;
  }

 private:
  synTensor make_tensor(size_t index) {
    const TensorSpec& spec = source_.tensors[index];
    const std::string name = spec.name.empty() ? fmt::format("tensor{}", index) : spec.name;
    const auto expect = [&](synStatus status, const char* what) {
      if (status != synSuccess) library_.expect(status, fmt::format("{} of {}", what, name).c_str());
    };
    synTensor tensor = nullptr;
    expect(library_.synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, name.c_str()), "creating the tensor");
    synTensorGeometry geometry{};
    geometry.dims = static_cast<uint32_t>(spec.sizes.size());
    std::copy(spec.sizes.begin(), spec.sizes.end(), geometry.sizes);
    expect(library_.synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes), "setting the sizes");
    expect(library_.synTensorSetDeviceDataType(tensor, spec.dtype), "setting the data type");
    if (!spec.constant.empty())
      expect(library_.synTensorSetHostPtr(tensor, const_cast<char*>(spec.constant.data()), spec.constant.size(),
                                          spec.dtype, true),
             "setting the contents");
    if (!spec.name.empty()) {
      synSectionHandle section = nullptr;
      if (spec.same_section >= 0) {
        section = sections_[static_cast<size_t>(spec.same_section)];
      } else {
        expect(library_.synSectionCreate(&section, 0, graph_), "creating a section");
        sections_[index] = section;
        expect(library_.synSectionSetPersistent(section, true), "making the section persistent");
      }
      expect(library_.synTensorAssignToSection(tensor, section, 0), "assigning the section");
    }
    return tensor;
  }

  std::string describe(const NodeSpec& node) const {
    const auto list = [&](const std::vector<int>& tensors) {
      std::string text;
      for (const int tensor : tensors)
        text +=
            fmt::format("{}[{}]", text.empty() ? "" : " ",
                        tensor == kNoTensor
                            ? ""
                            : fmt::format("{}", fmt::join(source_.tensors[static_cast<size_t>(tensor)].sizes, ",")));
      return text;
    };
    return fmt::format("node {} with sizes {} -> {}", node.guid, list(node.inputs), list(node.outputs));
  }

  synNodeId make_node(size_t index) {
    const NodeSpec& spec = source_.nodes[index];
    std::vector<synTensor> inputs, outputs;
    for (const int tensor : spec.inputs)
      inputs.push_back(tensor == kNoTensor ? nullptr : tensors_[static_cast<size_t>(tensor)]);
    for (const int tensor : spec.outputs) outputs.push_back(tensors_[static_cast<size_t>(tensor)]);
    std::vector<const char*> in_layouts, out_layouts;
    for (const std::string& layout : spec.in_layouts) in_layouts.push_back(layout.c_str());
    for (const std::string& layout : spec.out_layouts) out_layouts.push_back(layout.c_str());
    const std::string name = fmt::format("node{}_{}", index, spec.guid);
    synNodeId id = 0;
    const synStatus status = library_.synNodeCreateWithId(
        graph_, inputs.data(), outputs.data(), static_cast<uint32_t>(inputs.size()),
        static_cast<uint32_t>(outputs.size()), spec.params.empty() ? nullptr : spec.params.data(),
        static_cast<unsigned>(spec.params.size()), spec.guid.c_str(), name.c_str(), &id,
        in_layouts.empty() ? nullptr : in_layouts.data(), out_layouts.empty() ? nullptr : out_layouts.data());
    if (status != synSuccess) library_.expect(status, describe(spec).c_str());
    return id;
  }

  // Whoever reads what an output overwrites goes before the writer.
  void write_after_reads(int output) {
    const int input = source_.tensors[static_cast<size_t>(output)].same_section;
    const auto holds = [](const std::vector<int>& list, int tensor) {
      return std::find(list.begin(), list.end(), tensor) != list.end();
    };
    std::vector<synNodeId> readers, writer;
    for (size_t i = 0; i < source_.nodes.size(); ++i) {
      if (holds(source_.nodes[i].outputs, output)) writer.push_back(ids_[i]);
      else if (holds(source_.nodes[i].inputs, input)) readers.push_back(ids_[i]);
    }
    if (readers.empty() || writer.empty()) return;
    library_.expect(
        library_.synNodeDependencySet(graph_, readers.data(), writer.data(), static_cast<uint32_t>(readers.size()), 1),
        "ordering nodes");
  }

  const SynapseLibrary& library_;
  const RecipeGraph& source_;
  synGraphHandle graph_ = nullptr;
  std::vector<synTensor> tensors_;
  std::vector<synSectionHandle> sections_;
  std::vector<synNodeId> ids_;
};

}  // namespace

Recipe::Recipe(const SynapseLibrary& library, const RecipeGraph& graph, synDeviceType device, bool eager,
               const std::string& name)
    : library_(library) {
  Builder builder(library, graph, device, eager);
  builder.build();
  handle_ = builder.compile(name);
  finish(graph);
}

Recipe::Recipe(const SynapseLibrary& library, const RecipeGraph& graph, const std::string& file) : library_(library) {
  library.expect(library.synRecipeDeSerialize(&handle_, file.c_str()), "reading a recipe");
  finish(graph);
}

Recipe::~Recipe() {
  if (handle_) library_.synRecipeDestroy(handle_);
}

void Recipe::finish(const RecipeGraph& graph) {
  try {
    library_.expect(library_.synWorkspaceGetSize(&workspace_, handle_), "asking for the size of the workspace");
    std::vector<const char*> names;
    for (const TensorSpec& tensor : graph.tensors)
      if (!tensor.name.empty()) {
        names.push_back(tensor.name.c_str());
        persistent_.push_back({tensor.name, 0, tensor.sizes});
      }
    std::vector<uint64_t> ids(names.size());
    library_.expect(
        library_.synTensorRetrieveIds(handle_, names.data(), ids.data(), static_cast<uint32_t>(names.size())),
        "asking for the ids of tensors");
    for (size_t i = 0; i < ids.size(); ++i) persistent_[i].id = ids[i];
  } catch (...) {
    library_.synRecipeDestroy(handle_);
    throw;
  }
}

void Recipe::save(const std::string& file) const {
  library_.expect(library_.synRecipeSerialize(handle_, file.c_str()), "writing a recipe");
}

std::vector<synLaunchTensorInfo> Recipe::launch_infos() const {
  std::vector<synLaunchTensorInfo> infos;
  for (const Persistent& tensor : persistent_) {
    synLaunchTensorInfo info{};
    info.tensorName = tensor.name.c_str();
    info.tensorType = DATA_TENSOR;
    info.tensorId = tensor.id;
    std::copy(tensor.sizes.begin(), tensor.sizes.end(), info.tensorSize);
    infos.push_back(info);
  }
  return infos;
}

}  // namespace transom::hpu
