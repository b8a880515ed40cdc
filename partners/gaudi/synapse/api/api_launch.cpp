// SPDX-License-Identifier: Apache-2.0
// Launching recipes, and the profiler's functions.
#include <algorithm>

#include "configuration.h"
#include "process.h"
#include "recipe.h"

using namespace synapse_emulator;

namespace {

constexpr uint32_t kByName = 1;

struct Launch {
  std::shared_ptr<Recipe> recipe;
  std::vector<char*> data;
  std::vector<Range> ranges;
  std::vector<std::shared_ptr<Pages>> keep;
};

uint32_t tensor_index(const Recipe& recipe, const synLaunchTensorInfo& info, bool by_name) {
  if (by_name) {
    rule(info.tensorName != nullptr, synInvalidArgument, "launch-name", "a tensor without name");
    for (uint32_t i = 0; i < recipe.launch_tensors; ++i)
      if (recipe.tensors[i].name == info.tensorName) return i;
    throw Violation{synInvalidArgument, "launch-name", join("the recipe has no tensor ", info.tensorName)};
  }
  const uint64_t index = info.tensorId & ~(uint64_t{0xFF} << 56);
  rule(index < recipe.launch_tensors && id_of(recipe, static_cast<uint32_t>(index)) == info.tensorId,
       synInvalidArgument, "launch-id", "the recipe has no tensor with id ", info.tensorId);
  return static_cast<uint32_t>(index);
}

// Finds the memory of each launch tensor.
void bind(Launch& launch, const synLaunchTensorInfo* infos, uint32_t count, bool by_name) {
  const Recipe& recipe = *launch.recipe;
  const uint64_t alignment = configuration().generation.alignment;
  std::vector<bool> listed(recipe.launch_tensors, false);
  std::vector<uint64_t> bases(recipe.sections.size(), 0);
  struct Bound {
    uint64_t begin, end;
    uint32_t tensor;
  };
  std::vector<Bound> bound;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = tensor_index(recipe, infos[i], by_name);
    const RecipeTensor& tensor = recipe.tensors[index];
    rule(!listed[index], synInvalidArgument, "launch-list", "tensor ", tensor.name, " is listed twice");
    listed[index] = true;
    rule(infos[i].tensorType == tensor.kind, synInvalidArgument, "launch-kind", "tensor ", tensor.name, " is of kind ",
         tensor.kind, ", the list says ", infos[i].tensorType);
    for (int dim = 0; dim < tensor.sizes.rank; ++dim)
      rule(infos[i].tensorSize[0] == 0 || infos[i].tensorSize[dim] == static_cast<uint64_t>(tensor.sizes[dim]),
           synInvalidArgument, "launch-size", "tensor ", tensor.name, " is static with sizes ", text_of(tensor.sizes));
    if (tensor.bytes() == 0 || tensor.kind != DATA_TENSOR) continue;
    const uint64_t address = infos[i].pTensorAddress;
    rule(address != 0, synInvalidArgument, "launch-address", "tensor ", tensor.name, " has no address");
    const Place place = process().memory.place(address, tensor.bytes(), synInvalidArgument, tensor.name.c_str());
    const uint64_t base = address - tensor.offset;
    rule(base % alignment == 0, synInvalidArgument, "launch-alignment", "tensor ", tensor.name, ": section at ", base,
         " is not aligned to ", alignment);
    uint64_t& section = bases[tensor.section];
    rule(section == 0 || section == base, synInvalidArgument, "launch-section", "tensor ", tensor.name,
         " lies elsewhere than the other tensors of its section");
    section = base;
    launch.data[index] = place.data;
    launch.keep.push_back(place.pages);
    launch.ranges.push_back({address, address + tensor.bytes(), !tensor.is_input});
    bound.push_back({address, address + tensor.bytes(), index});
  }
  for (uint32_t i = 0; i < recipe.launch_tensors; ++i)
    rule(listed[i] || recipe.tensors[i].bytes() == 0, synInvalidArgument, "launch-list", "tensor ",
         recipe.tensors[i].name, " is not listed");
  std::sort(bound.begin(), bound.end(), [](const Bound& a, const Bound& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < bound.size(); ++i) {
    for (size_t j = i + 1; j < bound.size() && bound[j].begin < bound[i].end; ++j) {
      const RecipeTensor& a = recipe.tensors[bound[i].tensor];
      const RecipeTensor& b = recipe.tensors[bound[j].tensor];
      rule(a.section == b.section || (a.is_input && b.is_input), synInvalidArgument, "launch-overlap", "tensors ",
           a.name, " and ", b.name, " overlap, but are not in one section");
    }
  }
}

int launch(synStreamHandle stream_handle, const synLaunchTensorInfo* infos, uint32_t count, uint64_t workspace,
           synRecipeHandle recipe_handle, uint32_t flags, const std::vector<std::shared_ptr<Event>>& events) {
  const std::shared_ptr<Stream> stream = process().streams.get(stream_handle);
  Launch work;
  work.recipe = process().recipes.get(recipe_handle);
  require_working_device();
  rule((flags & ~kByName) == 0, synInvalidArgument, "flags", "flags ", flags);
  rule(infos != nullptr || count == 0, synInvalidArgument, "arguments", "no list of tensors");
  const Recipe& recipe = *work.recipe;
  work.data.assign(recipe.tensors.size(), nullptr);
  bind(work, infos, count, (flags & kByName) != 0);
  Place space;
  if (recipe.workspace > 0) {
    rule(workspace != 0, synInvalidArgument, "workspace", "the recipe needs ", recipe.workspace, " bytes of workspace");
    rule(workspace % configuration().generation.alignment == 0, synInvalidArgument, "workspace",
         "the workspace is not aligned");
    space = process().memory.place(workspace, recipe.workspace, synInvalidArgument, "workspace");
    for (const Range& range : work.ranges)
      rule(range.end <= workspace || range.begin >= workspace + recipe.workspace, synInvalidArgument, "workspace",
           "the workspace overlaps a tensor");
    work.ranges.push_back({workspace, workspace + recipe.workspace, true});
    work.keep.push_back(space.pages);
  }
  for (size_t i = recipe.launch_tensors; i < recipe.tensors.size(); ++i) {
    const RecipeTensor& tensor = recipe.tensors[i];
    if (tensor.home == Home::kConstant) work.data[i] = tensor.constant->data();
    else if (tensor.kind == DATA_TENSOR && tensor.bytes() > 0) work.data[i] = space.data + tensor.offset;
  }
  const std::string what = "launch of " + (recipe.name.empty() ? "a recipe" : recipe.name);
  const uint64_t number = submit(
      stream, work.ranges, what.c_str(), [recipe = work.recipe, data = work.data] { run_recipe(*recipe, data); },
      std::move(work.keep));
  process().clock.launch(*stream, recipe.cost);
  process().clock.count("launches");
  const std::lock_guard lock(process().mutex);
  for (const std::shared_ptr<Event>& event : events)
    event->marker = {stream, number, stream->ready_seconds, process().races.seen(stream->id, number)};
  return synSuccess;
}

}  // namespace

synStatus synLaunch(const synStreamHandle stream, const synLaunchTensorInfo* infos, const uint32_t count,
                    uint64_t workspace, const synRecipeHandle recipe, uint32_t flags) {
  return Call("synLaunch", "stream", stream, "tensors", count, "workspace", workspace, "recipe", recipe, "flags", flags)
      .run([&] { return launch(stream, infos, count, workspace, recipe, flags, {}); });
}

synStatus synLaunchWithExternalEvents(const synStreamHandle stream, const synLaunchTensorInfo* infos,
                                      const uint32_t count, uint64_t workspace, const synRecipeHandle recipe,
                                      synEventHandle* events, const uint32_t event_count, uint32_t flags) {
  return Call("synLaunchWithExternalEvents", "stream", stream, "tensors", count, "workspace", workspace, "recipe",
              recipe, "events", event_count, "flags", flags)
      .run([&] {
        rule(event_count == 0 || configuration().generation.has_external_tensors, synUnsupported, "external",
             "not on the first generation");
        rule(event_count == 0 || events != nullptr, synInvalidArgument, "arguments", "no events");
        std::vector<std::shared_ptr<Event>> found;
        for (uint32_t i = 0; i < event_count; ++i)
          found.push_back(process().events.get(events[i], synInvalidEventHandle));
        return launch(stream, infos, count, workspace, recipe, flags, found);
      });
}

synStatus synEventMapTensor(synEventHandle* events, size_t count, const synLaunchTensorInfo* infos,
                            const synRecipeHandle handle) {
  return Call("synEventMapTensor", "count", count, "recipe", handle).run([&] {
    rule(configuration().generation.has_external_tensors, synUnsupported, "external", "not on the first generation");
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(events && infos && count > 0, synInvalidArgument, "arguments", "no events");
    for (size_t i = 0; i < count; ++i) {
      process().events.get(events[i], synInvalidEventHandle);
      const RecipeTensor& tensor = recipe->tensors[tensor_index(*recipe, infos[i], false)];
      rule(tensor.external, synInvalidArgument, "external", "tensor ", tensor.name, " is not external");
    }
    return synSuccess;
  });
}

synStatus synProfilerQueryRequiredMemory(const synDeviceId device, uint32_t* bytes) {
  return Call("synProfilerQueryRequiredMemory", "device", device).run([&] {
    require_device(device);
    rule(bytes != nullptr, synInvalidArgument, "arguments", "no place for the size");
    *bytes = 0;
    return synSuccess;
  });
}
synStatus synProfilerSetUserBuffer(const synDeviceId device, void* buffer) {
  return Call("synProfilerSetUserBuffer", "device", device, "buffer", buffer).run([&] {
    require_device(device);
    return synSuccess;
  });
}
synStatus synProfilerStart(const synTraceType type, const synDeviceId device) {
  return Call("synProfilerStart", "type", type, "device", device).run([&]() -> int {
    require_device(device);
    throw Failure{synUnsupported, "the emulator has no profiler; TRANSOM_SYNAPSE_REPORT gives simulated times"};
  });
}
synStatus synProfilerStop(const synTraceType type, const synDeviceId device) {
  return Call("synProfilerStop", "type", type, "device", device).run([&]() -> int {
    require_device(device);
    throw Failure{synUnsupported, "the emulator has no profiler"};
  });
}
synStatus synProfilerGetTrace(const synTraceType type, const synDeviceId device, const synTraceFormat format, void*,
                              size_t*, size_t*) {
  return Call("synProfilerGetTrace", "type", type, "device", device, "format", format).run([&]() -> int {
    require_device(device);
    throw Failure{synUnsupported, "the emulator has no profiler"};
  });
}
