// SPDX-License-Identifier: Apache-2.0
// The Trainer: data, metrics and callbacks are functions of Python, which run under the GIL while the rest does not.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/json/json.h"
#include "bindings.h"
#include "interrupts.h"
#include "transom/error.h"
#include "transom/generation.h"
#include "transom/ops.h"
#include "transom/trainer.h"

namespace transom::python {
namespace {

using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// ---- batches

template <typename From, typename To>
std::vector<To> converted(const HostArray& array) {
  const auto* values = static_cast<const From*>(array.data());
  return std::vector<To>(values, values + array.size());
}

struct Column {
  Shape shape;
  bool floating = false;
  std::vector<int64_t> integers;
  std::vector<float> numbers;
};

Column column_of_array(const std::string& name, const HostArray& array) {
  Column column;
  for (size_t axis = 0; axis < array.ndim(); ++axis) column.shape.push_back(static_cast<int64_t>(array.shape(axis)));
  const nb::dlpack::dtype type = array.dtype();
  if (type == nb::dtype<float>()) column.floating = true, column.numbers = converted<float, float>(array);
  else if (type == nb::dtype<double>()) column.floating = true, column.numbers = converted<double, float>(array);
  else if (type == nb::dtype<int64_t>()) column.integers = converted<int64_t, int64_t>(array);
  else if (type == nb::dtype<int32_t>()) column.integers = converted<int32_t, int64_t>(array);
  else if (type == nb::dtype<int8_t>()) column.integers = converted<int8_t, int64_t>(array);
  else if (type == nb::dtype<uint8_t>() || type == nb::dtype<bool>())
    column.integers = converted<uint8_t, int64_t>(array);
  else
    throw Error(ErrorKind::kInput, "a batch: '" + name + "': expected int64, int32, int8, uint8, bool, float32 or " +
                                       "float64, found another element type");
  return column;
}

Column column_of(const std::string& name, const nb::handle& value) {
  if (!nb::isinstance<Tensor>(value)) return column_of_array(name, nb::cast<HostArray>(value));
  const Tensor tensor = nb::cast<Tensor>(value);
  Column column{.shape = tensor.shape(), .floating = is_floating(tensor.dtype())};
  const nb::gil_scoped_release released;
  if (column.floating) column.numbers = tensor.to_vector<float>();
  else column.integers = tensor.to_vector<int64_t>();
  return column;
}

void add_column(Batch& batch, const std::string& name, Column column) {
  const size_t rank = column.shape.size();
  const auto refuse = [&](const char* expected) {
    throw Error(ErrorKind::kInput,
                "a batch: '" + name + "': expected " + expected + ", found " + to_string(column.shape));
  };
  if (rank == 0) refuse("rows");
  if (column.floating) {
    if (name == "labels") batch.label_values = std::move(column.numbers);
    else batch.arrays[name] = {std::move(column.shape), std::move(column.numbers)};
    return;
  }
  if (rank == 1 && name == "labels") batch.labels = std::move(column.integers);
  else if (rank == 1) batch.numbers[name] = std::move(column.integers);
  else if (rank == 2) batch.sequences[name] = {column.shape[0], column.shape[1], std::move(column.integers)};
  else if (rank == 3) {
    batch.choices = column.shape[1];
    batch.sequences[name] = {column.shape[0] * column.shape[1], column.shape[2], std::move(column.integers)};
  } else {
    refuse("whole numbers with one to three axes");
  }
}

Batch batch_of(const nb::dict& columns) {
  Batch batch;
  for (const auto& [key, value] : columns) {
    const auto name = nb::cast<std::string>(key);
    add_column(batch, name, column_of(name, value));
  }
  return batch;
}

// A function of Python that may be dropped on any thread.
std::shared_ptr<nb::object> shared(nb::object function) {
  return {new nb::object(std::move(function)), [](nb::object* each) {
            const nb::gil_scoped_acquire acquired;
            delete each;
          }};
}

// `batch` gets the numbers of rows and returns a dict of arrays.
TrainingData training_data(int64_t rows, const nb::object& batch, const std::vector<int64_t>& lengths) {
  TrainingData data{.rows = rows, .batch = {}, .lengths = lengths, .augment = {}};
  data.batch = [make = shared(batch)](const std::vector<int64_t>& numbers) {
    const nb::gil_scoped_acquire acquired;
    return batch_of(nb::cast<nb::dict>((*make)(nb::cast(numbers))));
  };
  return data;
}

// ---- results

nb::object array_of(std::vector<float> values, const Shape& shape) {
  auto* held = new std::vector<float>(std::move(values));
  const nb::capsule owner(held, [](void* each) noexcept { delete static_cast<std::vector<float>*>(each); });
  const std::vector<size_t> extents(shape.begin(), shape.end());
  return nb::cast(nb::ndarray<nb::numpy, float>(held->data(), extents.size(), extents.data(), owner));
}

nb::object array_of(std::vector<int64_t> values, const Shape& shape) {
  auto* held = new std::vector<int64_t>(std::move(values));
  const nb::capsule owner(held, [](void* each) noexcept { delete static_cast<std::vector<int64_t>*>(each); });
  const std::vector<size_t> extents(shape.begin(), shape.end());
  return nb::cast(nb::ndarray<nb::numpy, int64_t>(held->data(), extents.size(), extents.data(), owner));
}

// Labels of rows, or of the values of each row.
Shape rows_and_rest(int64_t rows, size_t values) {
  const auto width = static_cast<int64_t>(values) / std::max<int64_t>(rows, 1);
  return width == 1 ? Shape{rows} : Shape{rows, width};
}

// (outputs by name, labels or None, loss or None)
nb::tuple tuple_of(const Predictions& predictions) {
  nb::dict outputs;
  for (const auto& output : predictions.outputs) outputs[output.name.c_str()] = array_of(output.values, output.shape);
  nb::object labels = nb::none();
  if (!predictions.labels.empty())
    labels = array_of(predictions.labels, rows_and_rest(predictions.rows, predictions.labels.size()));
  else if (!predictions.label_values.empty())
    labels = array_of(predictions.label_values, rows_and_rest(predictions.rows, predictions.label_values.size()));
  return nb::make_tuple(outputs, labels, nb::cast(predictions.loss));
}

// Bytes are whole numbers.
nb::list list_of(const Metrics& metrics) {
  nb::list list;
  for (const auto& [name, value] : metrics)
    if (name.find("_mem_") != name.npos) list.append(nb::make_tuple(name, static_cast<int64_t>(value)));
    else list.append(nb::make_tuple(name, value));
  return list;
}

Metrics metrics_of(const nb::object& object) {
  Metrics metrics;
  for (const auto& [name, value] : nb::cast<nb::dict>(object))
    metrics.emplace_back(nb::cast<std::string>(name), nb::cast<double>(nb::float_(value)));
  return metrics;
}

// ---- callbacks

// Hands the events to one object of Python, which calls those of the user. It answers each with the bits of what is to
// be done: 1 stop, 2 log, 4 evaluate, 8 save.
class PythonCallbacks : public TrainerCallback {
 public:
  explicit PythonCallbacks(const nb::object& receiver) : receiver_(shared(receiver)) {}
  void on_train_begin(const TrainingArguments&, const TrainerState& state) override {
    wanted_ = 0;  // what was asked for in a run before is over
    whole("on_train_begin", state);
  }
  void on_epoch_begin(const TrainingArguments&, const TrainerState& state) override { step("on_epoch_begin", state); }
  void on_step_begin(const TrainingArguments&, const TrainerState& state) override { step("on_step_begin", state); }
  void on_step_end(const TrainingArguments&, const TrainerState& state) override { step("on_step_end", state); }
  void on_epoch_end(const TrainingArguments&, const TrainerState& state) override { step("on_epoch_end", state); }
  void on_log(const TrainingArguments&, const TrainerState& state, const Metrics& metrics) override {
    whole("on_log", state, &metrics);
  }
  void on_evaluate(const TrainingArguments&, const TrainerState& state, const Metrics& metrics) override {
    whole("on_evaluate", state, &metrics);
  }
  void on_save(const TrainingArguments&, const TrainerState& state) override { whole("on_save", state); }
  void on_train_end(const TrainingArguments&, const TrainerState& state) override { whole("on_train_end", state); }
  bool should_stop() override { return (wanted_ & 1) != 0; }
  bool should_log() override { return taken(2); }
  bool should_evaluate() override { return taken(4); }
  bool should_save() override { return taken(8); }

 private:
  bool taken(int bit) {
    const bool wants = (wanted_ & bit) != 0;
    wanted_ &= ~bit;
    return wants;
  }
  void step(const char* event, const TrainerState& state) {
    const nb::gil_scoped_acquire acquired;
    pass_messages_on();
    wanted_ |= nb::cast<int>((*receiver_)(event, state.global_step, state.epoch, nb::none(), nb::none()));
  }
  void whole(const char* event, const TrainerState& state, const Metrics* metrics = nullptr) {
    const std::string text = state.to_json();
    const nb::gil_scoped_acquire acquired;
    pass_messages_on();
    const nb::object numbers = metrics ? nb::object(list_of(*metrics)) : nb::none();
    wanted_ |= nb::cast<int>((*receiver_)(event, state.global_step, state.epoch, text, numbers));
  }

  std::shared_ptr<nb::object> receiver_;
  int wanted_ = 0;
};

// ---- the Trainer

// The names of a model's arguments, which its own callers need not know.
struct InputNames : Model {
  static std::vector<std::string> of(const Model& model) { return (model.*(&InputNames::input_names))(); }
};

struct PythonTrainer {
  PythonTrainer(const SharedModel& model, const std::string& arguments_json) : model(model) {
    TrainingArguments arguments = parse_train_json(arguments_json, "TrainingArguments").training;
    trainer = std::make_unique<Trainer>(model, std::move(arguments));
  }

  void set_train_data(int64_t rows, const nb::object& batch, const std::vector<int64_t>& lengths) {
    trainer->set_train_data(training_data(rows, batch, lengths));
  }
  void set_eval_data(int64_t rows, const nb::object& batch, const std::vector<int64_t>& lengths) {
    trainer->set_eval_data(training_data(rows, batch, lengths));
  }
  void set_compute_metrics(const nb::object& function) {
    if (function.is_none()) return trainer->set_compute_metrics({});
    trainer->set_compute_metrics([held = shared(function)](const Predictions& predictions) {
      const nb::gil_scoped_acquire acquired;
      return metrics_of((*held)(tuple_of(predictions)));
    });
  }
  // dict of tensors to dict of tensors
  void set_preprocess_outputs(const nb::object& function) {
    trainer->set_preprocess_outputs([held = shared(function)](const NamedTensors& outputs) {
      const nb::gil_scoped_acquire acquired;
      NamedTensors kept;
      for (const auto& [name, tensor] : nb::cast<nb::dict>((*held)(dict_of(outputs))))
        kept.set(nb::cast<std::string>(name), nb::cast<Tensor>(tensor));
      return kept;
    });
  }
  // Generated tokens as the output "generated_tokens", rows filled up with `padding`.
  void set_generation(const std::string& directory, const std::string& config_text, int64_t padding) {
    GenerationConfig config;
    if (!directory.empty()) config = GenerationConfig::from_pretrained(directory);
    config.update(config_text);
    trainer->set_predictor([this, config, padding](const NamedTensors& inputs) {
      NamedTensors given;
      for (const char* name : {"input_ids", "attention_mask", "input_features"})
        if (inputs.find(name).defined()) given.set(name, inputs.at(name));
      const GenerationOutput output = generate(*model, given, config);
      size_t longest = 0;
      for (const TokenIds& row : output.sequences) longest = std::max(longest, row.size());
      std::vector<int64_t> ids;
      for (const TokenIds& row : output.sequences) {
        ids.insert(ids.end(), row.begin(), row.end());
        ids.insert(ids.end(), longest - row.size(), padding);
      }
      const Shape shape{static_cast<int64_t>(output.sequences.size()), static_cast<int64_t>(longest)};
      return NamedTensors{{"generated_tokens", Tensor::from(ids, shape)}};
    });
  }
  void clear_generation() { trainer->set_predictor({}); }

  SharedModel model;
  std::unique_ptr<Trainer> trainer;
};

}  // namespace

void bind_training(nb::module_& module) {
  using namespace nb::literals;
  module.def("training_arguments", [](const std::string& json) {
    const TrainArguments arguments = parse_train_json(json, "TrainingArguments");
    return nb::make_tuple(arguments.training.to_json(), nb::cast(arguments.notes));
  });
  // The same from flags, which others have taken theirs from.
  module.def("training_flags", [](const std::vector<std::string>& flags) {
    const TrainArguments arguments = parse_train_arguments(flags);
    return nb::make_tuple(arguments.training.to_json(), nb::cast(arguments.notes),
                          arguments.script.predict_with_generate, nb::cast(arguments.script.generation_max_length),
                          nb::cast(arguments.script.generation_num_beams));
  });
  module.def("input_names", [](const Model& model) { return InputNames::of(model); });
  nb::class_<PythonTrainer>(module, "Trainer")
      .def(nb::init<const SharedModel&, const std::string&>())
      .def("set_train_data", &PythonTrainer::set_train_data)
      .def("set_eval_data", &PythonTrainer::set_eval_data)
      .def("set_compute_metrics", &PythonTrainer::set_compute_metrics, "function"_a.none())
      .def("set_preprocess_outputs", &PythonTrainer::set_preprocess_outputs)
      .def("set_generation", &PythonTrainer::set_generation)
      .def("clear_generation", &PythonTrainer::clear_generation)
      .def("set_callbacks",
           [](PythonTrainer& self, const nb::object& receiver) {
             self.trainer->add_callback(std::make_shared<PythonCallbacks>(receiver));
           })
      .def("set_early_stopping", [](PythonTrainer& self, int64_t patience,
                                    double threshold) { self.trainer->set_early_stopping(patience, threshold); })
      .def("set_save_hook",
           [](PythonTrainer& self, const nb::object& hook) {
             self.trainer->set_save_hook([held = shared(hook)](const std::string& directory) {
               const nb::gil_scoped_acquire acquired;
               (*held)(directory);
             });
           })
      .def(
          "train",
          [](PythonTrainer& self, const std::optional<std::string>& resume_from) {
            return list_of(compute([&] { return self.trainer->train(resume_from); }));
          },
          "resume_from"_a.none())
      .def("evaluate",
           [](PythonTrainer& self, const std::string& prefix) {
             return list_of(compute([&] { return self.trainer->evaluate(prefix); }));
           })
      .def("predict",
           [](PythonTrainer& self, int64_t rows, const nb::object& batch) {
             const TrainingData data = training_data(rows, batch, {});
             const Predictions predictions = compute([&] { return self.trainer->predict(data); });
             return nb::make_tuple(tuple_of(predictions), list_of(predictions.memory));
           })
      .def("save_model", [](PythonTrainer& self,
                            const std::string& directory) { compute([&] { self.trainer->save_model(directory); }); })
      .def("state", [](const PythonTrainer& self) { return self.trainer->state().to_json(); });
}

}  // namespace transom::python
