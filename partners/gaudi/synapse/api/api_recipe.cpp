// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for compilation and recipes.
#include <algorithm>
#include <cstdio>

#include "configuration.h"
#include "process.h"
#include "recipe.h"

using namespace synapse_emulator;

namespace {

constexpr uint64_t kNoTensor = ~uint64_t{0};

int compile_graph(synRecipeHandle* handle, synGraphHandle graph, const char* name) {
  rule(handle != nullptr, synInvalidArgument, "arguments", "no place for the recipe");
  *handle = nullptr;
  const std::shared_ptr<Graph> found = process().graphs.get(graph);
  rule(!found->compiled, synInvalidArgument, "graph-life", "the graph is compiled already");
  *handle = process().recipes.add<synRecipeHandle>(compile(*found, name ? name : ""));
  process().clock.count("recipes_compiled");
  return synSuccess;
}

const RecipeTensor& tensor_of(const Recipe& recipe, uint64_t id) {
  const uint64_t index = id & ~(uint64_t{0xFF} << 56);
  rule(index < recipe.launch_tensors && id_of(recipe, static_cast<uint32_t>(index)) == id, synInvalidArgument,
       "tensor-id", "the recipe has no tensor ", id);
  return recipe.tensors[index];
}

}  // namespace

synStatus synGraphCompile(synRecipeHandle* recipe, const synGraphHandle graph, const char* name, const char* log) {
  return Call("synGraphCompile", "graph", graph, "name", name, "log", log).run([&] {
    return compile_graph(recipe, graph, name);
  });
}

synStatus synGraphCompileV2(synRecipeHandle* recipe, const synGraphHandle graph, const char* name,
                            synErrorHandle* error) {
  const int status =
      Call("synGraphCompileV2", "graph", graph, "name", name).run([&] { return compile_graph(recipe, graph, name); });
  if (error && process().initialized) {
    *error = nullptr;
    if (status != synSuccess)
      *error = process().errors.add<synErrorHandle>(std::make_shared<ErrorText>(ErrorText{status, last_message()}));
  }
  return status;
}

synStatus synErrorGetStatus(synErrorHandle error, synStatus* status) {
  return Call("synErrorGetStatus", "error", error).run([&] {
    rule(status != nullptr, synInvalidArgument, "arguments", "no place for the status");
    *status = process().errors.get(error)->status;
    return synSuccess;
  });
}
synStatus synErrorGetMessageLength(synErrorHandle error, size_t* length) {
  return Call("synErrorGetMessageLength", "error", error).run([&] {
    rule(length != nullptr, synInvalidArgument, "arguments", "no place for the length");
    *length = process().errors.get(error)->text.size() + 1;
    return synSuccess;
  });
}
synStatus synErrorGetMessage(synErrorHandle error, char* text, size_t room) {
  return Call("synErrorGetMessage", "error", error).run([&] {
    rule(text != nullptr && room > 0, synInvalidArgument, "arguments", "no place for the text");
    std::snprintf(text, room, "%s", process().errors.get(error)->text.c_str());
    return synSuccess;
  });
}
synStatus synErrorDestroy(synErrorHandle error) {
  return Call("synErrorDestroy", "error", error).run([&] {
    process().errors.take(error);
    return synSuccess;
  });
}

synStatus synWorkspaceGetSize(uint64_t* bytes, const synRecipeHandle recipe) {
  return Call("synWorkspaceGetSize", "recipe", recipe).run([&] {
    rule(bytes != nullptr, synInvalidArgument, "arguments", "no place for the size");
    *bytes = process().recipes.get(recipe)->workspace;
    return synSuccess;
  });
}

synStatus synRecipeDestroy(synRecipeHandle recipe) {
  return Call("synRecipeDestroy", "recipe", recipe).run([&] {
    process().recipes.take(recipe);  // launches in flight keep what they need
    return synSuccess;
  });
}

synStatus synRecipeSerialize(const synRecipeHandle recipe, const char* file) {
  return Call("synRecipeSerialize", "recipe", recipe, "file", file).run([&] {
    rule(file != nullptr, synInvalidArgument, "arguments", "no file");
    write_recipe(*process().recipes.get(recipe), file);
    return synSuccess;
  });
}

synStatus synRecipeDeSerialize(synRecipeHandle* recipe, const char* file) {
  return Call("synRecipeDeSerialize", "file", file).run([&] {
    rule(recipe && file, synInvalidArgument, "arguments", "no file, or no place for the recipe");
    *recipe = process().recipes.add<synRecipeHandle>(read_recipe(file));
    process().clock.count("recipes_read");
    return synSuccess;
  });
}

synStatus synRecipeGetAttribute(uint64_t* out, const synRecipeAttribute* which, const unsigned count,
                                const synRecipeHandle handle) {
  return Call("synRecipeGetAttribute", "recipe", handle, "count", count).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(out && which, synInvalidArgument, "arguments", "no attributes");
    uint64_t persistent = 0, constant = 0, external = 0;
    for (uint32_t i = 0; i < recipe->launch_tensors; ++i) {
      persistent += recipe->tensors[i].bytes();
      external += recipe->tensors[i].external;
    }
    for (const RecipeSection& section : recipe->sections) constant += section.data.size();
    for (unsigned i = 0; i < count; ++i) {
      switch (which[i]) {
        case 0:
          out[i] = recipe->workspace;
          break;
        case 1:
          out[i] = recipe->launch_tensors;
          break;
        case 2:
          out[i] = constant;
          break;
        case 3:
          out[i] = external;
          break;
        case 4:
          out[i] = persistent;
          break;
        case 5:
          out[i] = constant;
          break;
        case 6:
          out[i] = recipe->workspace + persistent;
          break;
        default:
          throw Violation{synInvalidArgument, "recipe-attribute", join("attribute ", which[i])};
      }
    }
    return synSuccess;
  });
}

synStatus synRecipeSectionGetProp(const synRecipeHandle handle, const synSectionId section, const synSectionProp which,
                                  uint64_t* out) {
  return Call("synRecipeSectionGetProp", "recipe", handle, "section", section, "property", which).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(section < recipe->sections.size(), synInvalidArgument, "section-id", "section ", section);
    rule(out != nullptr && which >= 0 && which <= 2, synInvalidArgument, "arguments", "property ", which);
    const RecipeSection& found = recipe->sections[section];
    *out = which == 0   ? found.data.size()
           : which == 1 ? reinterpret_cast<uint64_t>(found.data.data())
                        : uint64_t{found.constant};
    return synSuccess;
  });
}

synStatus synRecipeSectionHostBuffersClear(synRecipeHandle handle, const synSectionId* sections, size_t count) {
  return Call("synRecipeSectionHostBuffersClear", "recipe", handle, "count", count).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    for (size_t i = 0; i < count; ++i) {
      rule(sections && sections[i] < recipe->sections.size(), synInvalidArgument, "section-id", "no such section");
      recipe->sections[sections[i]].data = {};
    }
    return synSuccess;
  });
}

synStatus synTensorRetrieveIds(const synRecipeHandle handle, const char** names, uint64_t* ids, const uint32_t count) {
  return Call("synTensorRetrieveIds", "recipe", handle, "count", count).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(names && ids, synInvalidArgument, "arguments", "no names");
    for (uint32_t i = 0; i < count; ++i) {
      rule(names[i] != nullptr, synInvalidArgument, "arguments", "name ", i, " is missing");
      ids[i] = kNoTensor;
      for (uint32_t tensor = 0; tensor < recipe->launch_tensors; ++tensor)
        if (recipe->tensors[tensor].name == names[i]) ids[i] = id_of(*recipe, tensor);
    }
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchAmount(const synRecipeHandle handle, uint32_t* count) {
  return Call("synTensorRetrieveLaunchAmount", "recipe", handle).run([&] {
    rule(count != nullptr, synInvalidArgument, "arguments", "no place for the count");
    *count = process().recipes.get(handle)->launch_tensors;
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchIds(const synRecipeHandle handle, uint64_t* ids, const uint32_t count) {
  return Call("synTensorRetrieveLaunchIds", "recipe", handle, "count", count).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(ids && count <= recipe->launch_tensors, synInvalidArgument, "arguments", "the recipe has ",
         recipe->launch_tensors, " launch tensors");
    for (uint32_t i = 0; i < count; ++i) ids[i] = id_of(*recipe, i);
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchInfoById(const synRecipeHandle handle, const uint32_t count,
                                          synRetrievedLaunchTensorInfo* infos) {
  return Call("synTensorRetrieveLaunchInfoById", "recipe", handle, "count", count).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(infos != nullptr, synInvalidArgument, "arguments", "no place for the information");
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t id = infos[i].tensorId;
      const RecipeTensor& tensor = tensor_of(*recipe, id);
      synRetrievedLaunchTensorInfo info = {};
      std::snprintf(info.tensorName, sizeof info.tensorName, "%s", tensor.name.c_str());
      info.tensorId = id;
      info.tensorType = tensor.kind;
      info.tensorDataType = tensor.type;
      info.tensorDims = static_cast<uint32_t>(tensor.sizes.rank);
      for (int dim = 0; dim < tensor.sizes.rank; ++dim) {
        info.tensorMaxSize[dim] = info.tensorMinSize[dim] = static_cast<uint64_t>(tensor.sizes[dim]);
        info.tensorPermutation[dim] =
            tensor.permutation.empty() ? static_cast<uint8_t>(dim) : tensor.permutation[static_cast<size_t>(dim)];
      }
      info.tensorSectionId = tensor.section;
      info.tensorOffsetInSection = tensor.offset;
      info.isInput = tensor.is_input;
      infos[i] = info;
    }
    return synSuccess;
  });
}

synStatus synTensorExtExtractExecutionOrder(const synRecipeHandle handle, uint32_t count, uint64_t* ids) {
  return Call("synTensorExtExtractExecutionOrder", "recipe", handle, "count", count).run([&] {
    const std::shared_ptr<Recipe> recipe = process().recipes.get(handle);
    rule(ids != nullptr, synInvalidArgument, "arguments", "no place for the ids");
    uint32_t found = 0;
    for (const RecipeNode& node : recipe->nodes)
      for (const int32_t tensor : node.out)
        if (tensor >= 0 && recipe->tensors[static_cast<size_t>(tensor)].external && found < count)
          ids[found++] = id_of(*recipe, static_cast<uint32_t>(tensor));
    rule(found == count, synInvalidArgument, "external", "the recipe has ", found, " external tensors");
    return synSuccess;
  });
}
