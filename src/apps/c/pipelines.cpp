// SPDX-License-Identifier: Apache-2.0
// The pipelines of transom_c.h, the device, and the version.
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "apps/c/guard.h"
#include "base/error.h"
#include "transom/device.h"

struct transom_pipeline {
  transom::LoadedPipeline loaded;
};

namespace transom {
namespace {

const LoadedPipeline& loaded(const transom_pipeline* pipeline) {
  if (!pipeline) fail(ErrorKind::kUsage, "pipeline: expected a handle of transom_pipeline_load, found NULL");
  return pipeline->loaded;
}

template <typename T>
void expect_place(T** place, const char* argument) {
  if (!place) fail(ErrorKind::kUsage, "{}: expected a place for the result, found NULL", argument);
  *place = nullptr;
}

// The vectors of texts in one allocation of C, f32 [count, width].
float* rows_of(const std::vector<TaskResult>& results, size_t& width) {
  width = 0;
  for (const TaskResult& result : results) {
    const auto* array = std::get_if<FeatureArray>(&result);
    if (!array || array->shape.size() != 1)
      fail(ErrorKind::kUsage, "pipeline: expected one of the task feature-extraction, found another");
    width = array->values.size();
  }
  auto* vectors = static_cast<float*>(std::malloc(std::max<size_t>(results.size() * width * sizeof(float), 1)));
  if (!vectors) throw std::bad_alloc();
  for (size_t i = 0; i < results.size(); ++i)
    std::memcpy(vectors + i * width, std::get<FeatureArray>(results[i]).values.data(), width * sizeof(float));
  return vectors;
}

}  // namespace
}  // namespace transom

using namespace transom;

extern "C" {

const char* transom_version(void) { return TRANSOM_VERSION; }

transom_code transom_set_device(const char* name, transom_failure* error) {
  return guarded(error, [&] { set_device(required(name, "name")); });
}

transom_code transom_pipeline_load(const char* task, const char* model, const char* options, transom_pipeline** handle,
                                   transom_failure* error) {
  return guarded(error, [&] {
    expect_place(handle, "pipeline");
    *handle = new transom_pipeline{
        pipeline(required(task, "task"), required(model, "model"), loading_options(options, true, "options"))};
  });
}

transom_code transom_pipeline_run(const transom_pipeline* handle, const char* input, const char* parameters,
                                  char** json, transom_failure* error) {
  return guarded(error, [&] {
    expect_place(json, "json");
    give_text(json, loaded(handle)(required(input, "input"), object_or_empty(parameters)));
  });
}

transom_code transom_pipeline_run_json(const transom_pipeline* handle, const char* input, const char* parameters,
                                       char** json, transom_failure* error) {
  return guarded(error, [&] {
    expect_place(json, "json");
    give_text(json, loaded(handle).run_json(required(input, "input"), object_or_empty(parameters)));
  });
}

transom_code transom_embed(const transom_pipeline* handle, const char* const* texts, size_t count, float** vectors,
                           size_t* width, transom_failure* error) {
  return guarded(error, [&] {
    expect_place(vectors, "vectors");
    if (!width || (!texts && count > 0))
      fail(ErrorKind::kUsage, "{}: expected a pointer, found NULL", width ? "texts" : "width");
    std::vector<TaskInput> inputs;
    for (size_t i = 0; i < count; ++i) inputs.emplace_back(TextInput(required(texts[i], "texts")));
    *vectors = rows_of(loaded(handle).run_all(inputs, {{"pooling", "auto"}}), *width);
  });
}

void transom_pipeline_free(transom_pipeline* handle) { delete handle; }
}
