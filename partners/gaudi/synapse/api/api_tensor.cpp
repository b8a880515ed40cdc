// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for tensors and sections.
#include <algorithm>

#include "configuration.h"
#include "graph.h"
#include "process.h"

using namespace synapse_emulator;

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // of an offset

std::shared_ptr<Graph> open_graph(synGraphHandle handle) {
  std::shared_ptr<Graph> graph = process().graphs.get(handle);
  rule(!graph->compiled, synInvalidArgument, "graph-life", "the graph is compiled already");
  return graph;
}

std::shared_ptr<Tensor> open_tensor(synTensor handle) {
  std::shared_ptr<Tensor> tensor = process().tensors.get(handle);
  rule(!tensor->graph->compiled, synInvalidArgument, "graph-life", "the graph of tensor ", tensor->name,
       " is compiled already");
  return tensor;
}

Sizes checked_geometry(const synTensorGeometry* geometry, const Tensor& tensor) {
  rule(geometry != nullptr, synInvalidArgument, "arguments", "no geometry");
  rule(geometry->dims > 0, synInvalidTensorDimensions, "geometry", "tensor ", tensor.name,
       " has no dims; a scalar is given as {1}");
  rule(geometry->dims <= kMostDims, synInvalidTensorDimensions, "geometry", "tensor ", tensor.name, " has ",
       geometry->dims, " dims; the emulator takes ", kMostDims);
  Sizes sizes;
  sizes.rank = static_cast<int>(geometry->dims);
  for (uint32_t dim = 0; dim < geometry->dims; ++dim) sizes.size[dim] = static_cast<int64_t>(geometry->sizes[dim]);
  rule(countable(sizes), synInvalidTensorDimensions, "geometry", "tensor ", tensor.name, " is too large");
  return sizes;
}

std::shared_ptr<Section> fresh_section(synSectionHandle handle) {
  std::shared_ptr<Section> section = process().sections.get(handle);
  rule(!section->assigned, synFailedSectionValidation, "section-life",
       "the properties of a section are set before a tensor is put into it");
  return section;
}

}  // namespace

synStatus synTensorHandleCreate(synTensor* handle, synGraphHandle graph, synTensorType kind, const char* name) {
  return Call("synTensorHandleCreate", "graph", graph, "kind", kind, "name", name).run([&] {
    const std::shared_ptr<Graph> found = open_graph(graph);
    rule(handle != nullptr, synInvalidArgument, "arguments", "no place for the handle");
    rule(kind == DATA_TENSOR || kind == SHAPE_TENSOR || kind == DATA_TENSOR_DYNAMIC || kind == DEVICE_SHAPE_TENSOR ||
             kind == HOST_TO_DEVICE_TENSOR,
         synInvalidArgument, "tensor-kind", "kind ", kind);
    if (kind != DATA_TENSOR && kind != SHAPE_TENSOR)
      throw Failure{synUnsupported, "the emulator has static shapes only"};
    auto tensor = std::make_shared<Tensor>();
    tensor->graph = found.get();
    tensor->kind = kind;
    tensor->name = name ? name : "";
    rule(tensor->name.size() < 1024, synInvalidArgument, "tensor-name", "the name is too long");
    for (const auto& other : found->tensors)
      rule(tensor->name.empty() || other->name != tensor->name, synNameIsAlreadyUsed, "tensor-name",
           "the graph has a tensor ", tensor->name);
    found->tensors.push_back(tensor);
    *handle = process().tensors.add<synTensor>(tensor);
    found->tensor_handles.push_back(*handle);
    return synSuccess;
  });
}

synStatus synTensorDestroy(const synTensor handle) {
  return Call("synTensorDestroy", "tensor", handle).run([&] {
    process().tensors.take(handle);  // nodes keep what they use
    return synSuccess;
  });
}

synStatus synTensorSetGeometry(synTensor handle, const synTensorGeometry* geometry, synGeometryType which) {
  return Call("synTensorSetGeometry", "tensor", handle, "which", which, "dims", geometry ? geometry->dims : 0).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    rule(which >= synGeometryMinSizes && which <= synGeometryMaxSizes, synInvalidArgument, "geometry", "geometry type ",
         which);
    const Sizes sizes = checked_geometry(geometry, *tensor);
    if (which == synGeometryMinSizes) {
      rule(!tensor->has_geometry || sizes.rank == tensor->sizes.rank, synInvalidTensorDimensions, "geometry", "tensor ",
           tensor->name, ": dims differ");
      tensor->least_sizes = sizes;
      return synSuccess;
    }
    tensor->sizes = sizes;
    tensor->has_geometry = true;
    return synSuccess;
  });
}

synStatus synTensorGetGeometry(const synTensor handle, synTensorGeometry* geometry, synGeometryType which) {
  return Call("synTensorGetGeometry", "tensor", handle, "which", which).run([&] {
    const std::shared_ptr<Tensor> tensor = process().tensors.get(handle);
    rule(geometry != nullptr, synInvalidArgument, "arguments", "no place for the geometry");
    rule(tensor->has_geometry, synObjectNotInitialized, "geometry", "tensor ", tensor->name, " has none");
    const Sizes& sizes =
        which == synGeometryMinSizes && tensor->least_sizes.rank > 0 ? tensor->least_sizes : tensor->sizes;
    *geometry = {};
    geometry->dims = static_cast<uint32_t>(sizes.rank);
    for (int dim = 0; dim < sizes.rank; ++dim) geometry->sizes[dim] = static_cast<uint64_t>(sizes[dim]);
    return synSuccess;
  });
}

synStatus synTensorSetDeviceDataType(synTensor handle, synDataType type) {
  return Call("synTensorSetDeviceDataType", "tensor", handle, "type", type).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    rule(size_of(type) > 0, synInvalidArgument, "data-type", "tensor ", tensor->name, ": type ", type);
    const Generation& generation = configuration().generation;
    rule((type != syn_type_fp16 || generation.has_f16) && (type != syn_type_int64 || generation.has_int64) &&
             ((type != syn_type_fp8_143 && type != syn_type_fp8_152) || generation.mme_fp8_flops > 0),
         synInvalidArgument, "data-type", generation.name, " has no ", name_of(type));
    tensor->type = type;
    return synSuccess;
  });
}

synStatus synTensorSetDeviceFullLayout(synTensor handle, const synTensorDeviceFullLayout* layout) {
  return Call("synTensorSetDeviceFullLayout", "tensor", handle).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    rule(layout != nullptr, synInvalidArgument, "arguments", "no layout");
    for (const uint32_t stride : layout->strides)
      rule(stride == 0, synInvalidArgument, "layout", "tensor ", tensor->name, ": strides are 0");
    rule(size_of(layout->deviceDataType) > 0, synInvalidArgument, "data-type", "type ", layout->deviceDataType);
    tensor->type = layout->deviceDataType;
    return synSuccess;
  });
}

synStatus synTensorSetPermutation(synTensor handle, const synTensorPermutation* permutation) {
  return Call("synTensorSetPermutation", "tensor", handle, "dims", permutation ? permutation->dims : 0).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    rule(permutation != nullptr, synInvalidArgument, "arguments", "no permutation");
    tensor->permutation.clear();
    if (permutation->dims == 0) return synSuccess;
    rule(tensor->has_geometry && permutation->dims == tensor->sizes.rank, synInvalidArgument, "permutation", "tensor ",
         tensor->name, " has ", tensor->sizes.rank, " dims, the permutation ", int{permutation->dims});
    std::vector<uint8_t> order(permutation->permutation, permutation->permutation + permutation->dims);
    std::vector<uint8_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i)
      rule(sorted[i] == i, synInvalidArgument, "permutation", "tensor ", tensor->name, ": not a permutation");
    tensor->permutation = order;
    return synSuccess;
  });
}

synStatus synTensorSetAllowPermutation(synTensor handle, int8_t allow) {
  return Call("synTensorSetAllowPermutation", "tensor", handle, "allow", int{allow}).run([&] {
    open_tensor(handle)->may_permute = allow != 0;
    return synSuccess;
  });
}

synStatus synTensorSetHostPtr(synTensor handle, void* data, uint64_t bytes, synDataType type, bool copy) {
  return Call("synTensorSetHostPtr", "tensor", handle, "bytes", bytes, "type", type, "copy", copy).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    rule(data != nullptr && bytes > 0, synInvalidArgument, "arguments", "no data");
    rule(tensor->has_geometry && tensor->type != syn_type_na, synObjectNotInitialized, "constant",
         "geometry and type are set before the data");
    rule(type == tensor->type, synInvalidArgument, "constant", "tensor ", tensor->name, " has type ",
         name_of(tensor->type), ", the data ", name_of(type));
    rule(bytes == tensor->bytes(), synInvalidArgument, "constant", "tensor ", tensor->name, " has ", tensor->bytes(),
         " bytes, the data ", bytes);
    const char* begin = static_cast<const char*>(data);
    tensor->constant = std::make_shared<std::vector<char>>(begin, begin + bytes);
    return synSuccess;
  });
}

synStatus synTensorSetExternal(synTensor handle, bool external) {
  return Call("synTensorSetExternal", "tensor", handle, "external", external).run([&] {
    rule(configuration().generation.has_external_tensors, synUnsupported, "external", "not on the first generation");
    open_tensor(handle)->external = external;
    return synSuccess;
  });
}

synStatus synTensorAssignToSection(synTensor handle, synSectionHandle section_handle, uint64_t offset) {
  return Call("synTensorAssignToSection", "tensor", handle, "section", section_handle, "offset", offset).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    const std::shared_ptr<Section> section = process().sections.get(section_handle);
    rule(section->graph == tensor->graph, synFailedSectionValidation, "section-graph", "section and tensor ",
         tensor->name, " are of different graphs");
    rule(!tensor->section, synObjectAlreadyInitialized, "section", "tensor ", tensor->name, " has a section");
    rule(offset <= kMostBytes, synInvalidArgument, "section", "offset ", offset);
    rule(!section->persistent || !tensor->name.empty(), synInvalidArgument, "tensor-name",
         "a persistent tensor has a name");
    tensor->section = section;
    tensor->offset = offset;
    section->assigned = true;
    return synSuccess;
  });
}

synStatus synTensorSetSectionOffset(synTensor handle, uint64_t offset) {
  return Call("synTensorSetSectionOffset", "tensor", handle, "offset", offset).run([&] {
    const std::shared_ptr<Tensor> tensor = open_tensor(handle);
    rule(tensor->section != nullptr, synFailedSectionValidation, "section", "tensor ", tensor->name, " has no section");
    rule(offset <= kMostBytes, synInvalidArgument, "section", "offset ", offset);
    tensor->offset = offset;
    return synSuccess;
  });
}

synStatus synTensorSetQuantizationData(synTensor handle, synQuantizationProperty property, void* data, uint64_t bytes) {
  return Call("synTensorSetQuantizationData", "tensor", handle, "property", property, "bytes", bytes).run([&] {
    open_tensor(handle);
    rule(data != nullptr && bytes > 0 && property >= 0 && property <= 4, synInvalidArgument, "arguments", "property ",
         property, " of ", bytes, " bytes");
    return synSuccess;  // the emulator quantises nothing by itself
  });
}

synStatus synSectionCreate(synSectionHandle* handle, uint64_t zero, const synGraphHandle graph) {
  return Call("synSectionCreate", "graph", graph, "zero", zero).run([&] {
    const std::shared_ptr<Graph> found = open_graph(graph);
    rule(handle != nullptr, synInvalidArgument, "arguments", "no place for the handle");
    rule(zero == 0, synInvalidArgument, "arguments", "the second argument is 0");
    auto section = std::make_shared<Section>();
    section->graph = found.get();
    found->sections.push_back(section);
    *handle = process().sections.add<synSectionHandle>(section);
    found->section_handles.push_back(*handle);
    return synSuccess;
  });
}

synStatus synSectionDestroy(synSectionHandle handle) {
  return Call("synSectionDestroy", "section", handle).run([&] {
    process().sections.take(handle);
    return synSuccess;
  });
}

synStatus synSectionSetPersistent(synSectionHandle handle, bool persistent) {
  return Call("synSectionSetPersistent", "section", handle, "persistent", persistent).run([&] {
    fresh_section(handle)->persistent = persistent;
    return synSuccess;
  });
}
synStatus synSectionSetConst(synSectionHandle handle, bool constant) {
  return Call("synSectionSetConst", "section", handle, "const", constant).run([&] {
    fresh_section(handle)->constant = constant;
    return synSuccess;
  });
}
synStatus synSectionSetGroup(synSectionHandle handle, uint64_t group) {
  return Call("synSectionSetGroup", "section", handle, "group", group).run([&] {
    fresh_section(handle)->group = group;
    return synSuccess;
  });
}
synStatus synSectionSetRMW(synSectionHandle handle, bool value) {
  return Call("synSectionSetRMW", "section", handle, "rmw", value).run([&] {
    const std::shared_ptr<Section> section = fresh_section(handle);
    rule(!value || !section->persistent, synFailedSectionValidation, "section", "a persistent section has no RMW");
    section->read_modify_write = value;
    return synSuccess;
  });
}
