// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "bench/workload.h"
#include "io/config.h"

namespace transom {
namespace {

class Maker {
 public:
  Maker(const Model& model, const BenchOptions& options) : model_(model), options_(options), random_(42) {}

  Tensor integers(Shape shape, int64_t low, int64_t high) {
    std::vector<int64_t> values(static_cast<size_t>(elements(shape)));
    for (int64_t& value : values) value = low + random_.randint(std::max<int64_t>(1, high - low));
    return Tensor::from(values, shape);
  }

  Tensor normal(Shape shape) {
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    random_.fill_normal(values, 0, 1);
    return Tensor::from(values, shape);
  }

  // By the name of the model's first argument.
  NamedTensors inputs() {
    const Config& config = model_.config();
    const int64_t batch = options_.batch_size, length = options_.sequence_length;
    const std::string type = config.get_string("model_type", "");
    NamedTensors result;
    if (type == "wav2vec2" || type == "hubert") {
      result.set("input_values", normal({batch, length * kSamplesPerFrame}));
    } else if (type == "whisper") {
      result.set("input_features",
                 normal({batch, config.get_int("num_mel_bins", 80), 2 * config.get_int("max_source_positions", 1500)}));
      result.set("decoder_input_ids", tokens({batch, length}));
    } else if (config.has("vocab_size")) {
      result.set("input_ids", tokens({batch, length}));
      result.set("attention_mask",
                 Tensor::from(std::vector<int64_t>(static_cast<size_t>(batch * length), 1), {batch, length}));
      if (config.get_int("type_vocab_size", 0) > 1) result.set("token_type_ids", integers({batch, length}, 0, 1));
      if (reads_and_writes()) result.set("decoder_input_ids", tokens({batch, length}));
    } else if (takes_images()) {
      const int64_t size = config.get_int("image_size", 224);
      result.set("pixel_values", normal({batch, config.get_int("num_channels", 3), size, size}));
    } else {
      fail("{}: no inputs can be made up for {}; give tensors by their names with --inputs in.safetensors",
           config.where(), model_.architecture());
    }
    return result;
  }

  // Where a head sees a few labelled positions alone, these are spread over the sequence.
  Tensor words(const Shape& shape) {
    const Tensor all = integers(shape, 0, model_.config().get_int("vocab_size"));
    const int64_t most = options_.max_predictions_per_seq, length = shape.back();
    if (most == 0 || most >= length) return all;
    std::vector<int64_t> values = all.to_vector<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t position = static_cast<int64_t>(i) % length;
      if (position * most / length == (position + 1) * most / length) values[i] = -100;
    }
    return Tensor::from(values, shape);
  }

  void add_labels(NamedTensors& inputs) {
    const int64_t batch = options_.batch_size, length = options_.sequence_length;
    const auto classes = static_cast<int64_t>(model_.labels().size());
    const int64_t labels = classes ? classes : model_.config().get_int("num_labels", 2);
    switch (labels_of(model_)) {
      case Labels::kRows:
        inputs.set("labels", labels == 1 ? normal({batch}) : integers({batch}, 0, labels));
        break;
      case Labels::kTokens:
        inputs.set("labels", integers({batch, length}, 0, labels));
        break;
      case Labels::kSpans:
        inputs.set("start_positions", integers({batch}, 0, length));
        inputs.set("end_positions", integers({batch}, 0, length));
        break;
      case Labels::kWords:
        inputs.set("labels", words({batch, length}));
        if (model_.architecture() == "BertForPreTraining") inputs.set("next_sentence_label", integers({batch}, 0, 2));
        break;
      case Labels::kNone:
        fail(
            "{}: no labels can be made up for {}; give --task text-classification, or tensors with --inputs "
            "in.safetensors",
            model_.config().where(), model_.architecture());
    }
  }

  enum class Labels { kNone, kRows, kTokens, kSpans, kWords };
  static Labels labels_of(const Model& model) {
    const std::string architecture = model.architecture();
    const auto is = [&](std::string_view part) { return architecture.find(part) != std::string::npos; };
    if (is("SequenceClassification") || is("ImageClassification")) return Labels::kRows;
    if (is("TokenClassification")) return Labels::kTokens;
    if (is("QuestionAnswering")) return Labels::kSpans;
    if (is("MaskedLM") || is("CausalLM") || is("LMHead") || is("ForPreTraining") || is("ConditionalGeneration") ||
        is("MTModel"))
      return Labels::kWords;
    return Labels::kNone;
  }

 private:
  static constexpr int64_t kSamplesPerFrame = 320;  // of the usual feature extractor: 20 ms at 16 kHz

  bool is(std::string_view part) const { return model_.architecture().find(part) != std::string::npos; }
  bool reads_and_writes() const { return is("ConditionalGeneration") || is("MTModel"); }
  bool takes_images() const { return model_.config().has("image_size") || is("ImageClassification"); }

  // Low ids are special tokens in most vocabularies; padding among them would change what is computed.
  Tensor tokens(Shape shape) {
    const int64_t vocabulary = model_.config().get_int("vocab_size");
    return integers(std::move(shape), std::min<int64_t>(1000, vocabulary / 2), vocabulary);
  }

  const Model& model_;
  const BenchOptions& options_;
  Mt19937 random_;
};

}  // namespace

bool has_synthetic_labels(const Model& model) { return Maker::labels_of(model) != Maker::Labels::kNone; }

NamedTensors synthetic_inputs(const Model& model, const BenchOptions& options, bool labels) {
  Maker maker(model, options);
  NamedTensors inputs = maker.inputs();
  if (labels) maker.add_labels(inputs);
  return inputs;
}

}  // namespace transom
