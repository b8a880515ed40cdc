// SPDX-License-Identifier: Apache-2.0
#include "transom/generation.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include "bindings.h"
#include "interrupts.h"

namespace transom::python {
namespace {

// A streamer of Python: an object with put() and end().
class PythonStreamer : public Streamer {
 public:
  explicit PythonStreamer(nb::object object) : object_(std::move(object)) {}
  void put(const TokenIds& ids) override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("put")(nb::cast(ids));
  }
  void end() override {
    const nb::gil_scoped_acquire acquired;
    object_.attr("end")();
  }

 private:
  nb::object object_;
};

// `processors`: called with the tokens so far and the list of scores, returns the new scores; None: none.
nb::tuple generated(const SharedModel& model, const nb::dict& inputs, const std::string& directory,
                    const std::string& config_text, const nb::object& tokenizer, const nb::object& streamer,
                    const nb::object& processors) {
  const NamedTensors given = named_tensors(inputs);
  std::optional<PythonStreamer> receiver;
  GenerationOptions options;
  if (!streamer.is_none()) options.streamer = &receiver.emplace(streamer);
  if (!tokenizer.is_none()) options.tokenizer = nb::cast<const Tokenizer*>(tokenizer);
  if (!processors.is_none())
    options.process_logits = [&](const TokenIds& tokens, std::span<float> scores) {
      const nb::gil_scoped_acquire acquired;
      const nb::object changed =
          processors(nb::cast(tokens), nb::cast(std::vector<float>(scores.begin(), scores.end())));
      const auto values = nb::cast<std::vector<float>>(changed);
      if (values.size() != scores.size()) throw nb::value_error("a logits processor returned another number of scores");
      std::copy(values.begin(), values.end(), scores.begin());
    };
  const GenerationOutput output = compute([&] {
    GenerationConfig config;
    if (!directory.empty()) config = GenerationConfig::from_pretrained(directory);
    config.update(config_text);
    const NoGradient inference;
    return generate(*model, given, config, options);
  });
  return nb::make_tuple(nb::cast(output.sequences), nb::cast(output.scores));
}

}  // namespace

void bind_generation(nb::module_& module) {
  using namespace nb::literals;
  module.def("generate", generated, "model"_a, "inputs"_a, "directory"_a, "config"_a, "tokenizer"_a.none(),
             "streamer"_a.none(), "processors"_a.none());
}

}  // namespace transom::python
