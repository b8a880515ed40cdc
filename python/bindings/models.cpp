// SPDX-License-Identifier: Apache-2.0
#include "transom/model.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/json/json.h"
#include "bindings.h"
#include "files/config/model_config.h"
#include "files/family/family.h"
#include "files/hub/resolve.h"
#include "graph/ops/products/packed_matrix.h"
#include "interrupts.h"
#include "models/generative.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/load_changed.h"
#include "transom/config.h"
#include "transom/hub.h"

namespace transom::python {
namespace {

LoadOptions load_options(const std::string& text) {
  const Json json = parse_json(text, "the options of from_pretrained");
  LoadOptions options;
  options.task = json.value("task", "");
  if (json.contains("num_labels")) options.num_labels = json["num_labels"].get<int64_t>();
  if (json.contains("labels")) options.labels = json["labels"].get<std::vector<std::string>>();
  options.problem_type = json.value("problem_type", "");
  options.ignore_mismatched_sizes = json.value("ignore_mismatched_sizes", false);
  options.seed = json.value("seed", uint64_t{42});
  options.dtype = json.value("dtype", "float32");
  options.quantization = json.value("quantization", "none");
  options.activations = json.value("activations", "float32");
  options.keep_adapters = json.value("keep_adapters", false);
  return options;
}

HubOptions hub_options(const std::string& text) {
  const Json json = parse_json(text, "the options of the Hub");
  HubOptions options;
  options.revision = json.value("revision", "main");
  if (json.contains("token")) options.token = json["token"].get<std::string>();
  if (json.contains("cache_dir")) options.cache_dir = json["cache_dir"].get<std::string>();
  options.local_files_only = json.value("local_files_only", false);
  return options;
}

// `changes`: a JSON object of fields in the place of those of config.json.
SharedModel load(const std::string& directory, const std::string& options, const std::string& changes,
                 LoadReport& report) {
  const Json fields = parse_json(changes, "the configuration");
  if (!fields.empty()) return load_changed(directory, fields, load_options(options));
  return Model::from_pretrained(directory, load_options(options), &report);
}

// Computed now: an array that the caller gave may change once this returns.
NamedTensors forward(const SharedModel& model, const NamedTensors& inputs, bool output_hidden_states, bool return_loss,
                     bool interpolate_pos_encoding, int64_t logits_to_keep) {
  const NoGradient inference;
  const NamedTensors outputs = model->forward(inputs, {.output_hidden_states = output_hidden_states,
                                                       .return_loss = return_loss,
                                                       .interpolate_pos_encoding = interpolate_pos_encoding,
                                                       .logits_to_keep = logits_to_keep});
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : outputs.items()) all.push_back(tensor);
  eval(all);
  return outputs;
}

nb::dict tensors_of(const std::vector<std::shared_ptr<Parameter>>& parameters) {
  nb::dict result;
  for (const auto& parameter : parameters)
    if (parameter->value.defined()) result[parameter->name.c_str()] = nb::cast(parameter->value.detach());
  return result;
}

}  // namespace

void bind_models(nb::module_& module) {
  using namespace nb::literals;
  module.def("resolve_model", [](const std::string& name, const std::string& hub) {
    return compute([&] { return resolve_model(name, hub_options(hub)).string(); });
  });
  module.def("resolve_tokenizer", [](const std::string& name, const std::string& hub) {
    return compute([&] { return resolve_tokenizer(name, hub_options(hub)).string(); });
  });
  // Of a class of Transformers: the tasks that take its head, and whether it writes behind an encoder; none: unknown.
  module.def("head_of_class", [](const std::string& name) -> std::optional<std::pair<std::vector<std::string>, bool>> {
    const Architecture* known = find_architecture(name);
    if (!known) return std::nullopt;
    return std::pair(*known->head.pipelines, is_encoder_decoder(known->head));
  });
  module.def("read_config", [](const std::string& directory) { return read_model_config(directory).dump(); });

  nb::class_<LoadReport>(module, "LoadReport")
      .def(nb::init<>())
      .def_ro("missing", &LoadReport::missing)
      .def_ro("unexpected", &LoadReport::unexpected)
      .def_ro("mismatched", &LoadReport::mismatched);

  nb::class_<Model>(module, "Model")
      .def_static("load",
                  [](const std::string& directory, const std::string& options, const std::string& changes,
                     LoadReport& report) { return compute([&] { return load(directory, options, changes, report); }); })
      .def_static("from_config",
                  [](const std::string& config, const std::string& options) {
                    return compute([&] { return SharedModel(Model::from_config(config, load_options(options))); });
                  })
      .def(
          "forward",
          [](const SharedModel& model, const nb::dict& inputs, bool output_hidden_states, bool return_loss,
             bool interpolate_pos_encoding, int64_t logits_to_keep) {
            const NamedTensors given = named_tensors(inputs);
            return dict_of(compute([&] {
              return forward(model, given, output_hidden_states, return_loss, interpolate_pos_encoding, logits_to_keep);
            }));
          },
          "inputs"_a, "output_hidden_states"_a = false, "return_loss"_a = false, "interpolate_pos_encoding"_a = false,
          "logits_to_keep"_a = 0)
      .def("config", [](const Model& model) { return model.config().dump(); })
      .def("set_config", [](const Model& model, const std::string& field,
                            const std::string& value) { model.config().set_json(field, value); })
      .def("architecture", &Model::architecture)
      .def("labels", &Model::labels)
      .def("dtype", [](const Model& model) { return std::string(name_of(model.dtype())); })
      .def("can_generate",
           [](const Model& model) {
             const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
             return writer && writer->can_generate();
           })
      .def("has_encoder",
           [](const Model& model) {
             const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
             return writer && writer->has_encoder();
           })
      .def("generation_config",
           [](const Model& model) -> std::string {
             const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
             return writer ? writer->generation_config().dump() : "{}";
           })
      .def("state_dict",
           [](const Model& model) {
             nb::dict all = tensors_of(model.parameters());
             all.update(tensors_of(model.frozen()));
             all.update(tensors_of(model.buffers()));
             return all;
           })
      .def("trained_and_all",
           [](const Model& model) {
             int64_t trained = 0, all = 0;
             for (const auto& parameter : model.parameters()) trained += parameter->value.size();
             for (const auto& parameter : model.frozen())
               all += parameter->value.defined() ? parameter->value.size()
                                                 : parameter->packed->rows * parameter->packed->depth;
             return nb::make_tuple(trained, trained + all);
           })
      .def("has_adapters", [](const Model& model) { return model.adaptation() != nullptr; })
      .def("add_adapters",
           [](Model& model, const std::string& config, uint64_t seed) {
             compute([&] { Adaptation::add(model, AdapterConfig::with(config), seed); });
           })
      .def(
          "save_pretrained",
          [](const Model& model, const std::string& directory, uint64_t max_shard_bytes) {
            compute([&] { model.save_pretrained(directory, max_shard_bytes); });
          },
          "directory"_a, "max_shard_bytes"_a = uint64_t{5} << 30);
}

}  // namespace transom::python
