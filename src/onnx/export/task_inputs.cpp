// SPDX-License-Identifier: Apache-2.0
#include "onnx/export/task_inputs.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "io/config.h"
#include "ir/node.h"
#include "models/generative.h"
#include "models/loading/maximum_tokens.h"
#include "nn/cache.h"
#include "onnx/export/file_pass.h"
#include "tensor/mode_scope.h"

namespace transom::onnx {
namespace {

// Extents that no width of a model is likely to have, and that have no simple relation to each other.
const Extent kBatch = {3, 5, 2, 7}, kTextBatch = {4, 3, 7, 2}, kSequence = {11, 13, 17, 19},
             kShortSequence = {5, 6, 7, 4}, kDecoderSequence = {9, 14, 6, 10}, kShortDecoderSequence = {6, 4, 5, 7},
             kPast = {8, 10, 15, 12}, kShortPast = {3, 2, 6, 5}, kChoices = {4, 2, 3, 6},
             kSamples = {2611, 3109, 4007, 3517}, kHeight = {72, 99, 166, 233}, kWidth = {131, 88, 192, 257};

InputAxis fixed(const std::string& name, int64_t extent) { return {name, constant_extent(extent)}; }

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct InputAxes {
  InputAxis batch{"batch_size", kBatch}, sequence{"sequence_length", kSequence},
      decoder_sequence{"decoder_sequence_length", kDecoderSequence}, past{"past_sequence_length", kPast},
      choices{"num_choices", kChoices};

  explicit InputAxes(const Config& config) {
    const std::optional<int64_t> limit = maximum_tokens(config);
    constexpr int64_t kEnough = 32, kLeast = 13;  // for the sums of the extents above
    if (!limit || *limit >= kEnough) return;
    if (*limit < kLeast) fail("export: a model of at most {} tokens is not offered", *limit);
    sequence.extent = kShortSequence, decoder_sequence.extent = kShortDecoderSequence, past.extent = kShortPast;
  }

  // The tokens so far and those to come.
  InputAxis all() const {
    InputAxis sum{past.name + " + " + sequence.name, past.extent};
    for (size_t s = 0; s < kSignatures; ++s) sum.extent[s] += sequence.extent[s];
    return sum;
  }
};

FileInput tokens(const std::string& name, const InputAxis& batch, const InputAxis& sequence) {
  return {name, DType::kInt64, {batch, sequence}};
}

// An image of the size that the configuration names, or of any where the model is made of convolutions alone.
FileInput pixels(const Config& config, const InputAxis& batch, bool any_size) {
  const Config vision = config.has("vision_config") ? config.get_object("vision_config") : config;
  InputAxis height{"height", kHeight}, width{"width", kWidth};
  if (!any_size) {
    const auto size = vision.get_pair("image_size", 224);
    height = fixed("height", size[0]), width = fixed("width", size[1]);
  }
  return {"pixel_values",
          DType::kFloat32,
          {batch, fixed("num_channels", vision.get_int("num_channels", 3)), height, width}};
}

// The types to whose files optimum gives position_ids: those that write, and bodies without a head. Gemma and BLOOM
// count by themselves.
bool takes_positions(const std::string& type, const std::string& architecture) {
  return (architecture.ends_with("ForCausalLM") || architecture.ends_with("Model")) &&
         is_one_of(type, {"llama", "mistral", "mixtral", "qwen2", "qwen3", "phi3", "gpt2", "gpt_neox", "gpt_bigcode",
                          "starcoder2", "opt"});
}

// Whisper's spectrogram of a piece of sound, whose length is fixed.
FileInput sound_features(const Config& config, const InputAxes& axes) {
  return {"input_features",
          DType::kFloat32,
          {axes.batch, fixed("feature_size", config.get_int("num_mel_bins", 80)),
           fixed("encoder_sequence_length", 2 * config.get_int("max_source_positions", 1500))}};
}

// Keys and values of each layer, in shapes that a pass of one token shows: the decoder's own, and those of what the
// encoder gave. `first`, which gives them, is told of how many layers.
ExportedFile with_past_of(const transom::Model& model, const InputAxes& axes, const InputAxis& source,
                          ExportedFile& first) {
  ExportedFile file{"decoder_with_past_model.onnx", FilePart::kDecoderWithPast, {}};
  ExportedFile probe = first;
  probe.past_layers = 1;
  NamedTensors inputs;
  for (const FileInput& input : first.inputs) {
    Shape shape;
    for (const InputAxis& axis : input.axes) shape.push_back(axis.extent[0]);
    inputs.set(input.name, make_input({input.dtype, shape}));
    if (input.name != "encoder_hidden_states") file.inputs.push_back(input);
  }
  const NoGradient inference;
  const ModeScope lazy(Mode::kLazy);
  InputAxis past = axes.past;
  past.name = "past_decoder_sequence_length";
  for (const auto& [name, tensor] : run_file(model, probe, inputs).items()) {
    if (!name.starts_with("present.")) continue;
    file.inputs.push_back({"past_key_values" + name.substr(std::string_view("present").size()),
                           tensor.dtype(),
                           {axes.batch, fixed("num_heads", tensor.dim(1)),
                            name.find(".decoder.") != name.npos ? past : source, fixed("head_size", tensor.dim(3))}});
    if (name.ends_with(".decoder.key")) ++file.past_layers;
  }
  first.past_layers = file.past_layers;
  return file;
}

// Encoder and decoder in files of their own.
std::vector<ExportedFile> sequence_to_sequence(const transom::Model& model, const Config& config, const InputAxes& axes,
                                               const std::string& type, bool with_past) {
  ExportedFile encoder{"encoder_model.onnx", FilePart::kEncoder, {}},
      decoder{"decoder_model.onnx", FilePart::kDecoder, {}};
  InputAxis source{"encoder_sequence_length", axes.sequence.extent};
  if (type == "whisper") {
    const int64_t frames = config.get_int("max_source_positions", 1500);
    encoder.inputs = {sound_features(config, axes)};
    source = fixed("encoder_sequence_length", frames);
  } else {
    encoder.inputs = {tokens("input_ids", axes.batch, source), tokens("attention_mask", axes.batch, source)};
    decoder.inputs.push_back(tokens("encoder_attention_mask", axes.batch, source));
  }
  decoder.inputs.push_back(tokens("input_ids", axes.batch, axes.decoder_sequence));
  const int64_t width = config.has("d_model") ? config.get_int("d_model") : config.get_int("hidden_size");
  decoder.inputs.push_back(
      {"encoder_hidden_states", DType::kFloat32, {axes.batch, source, fixed("hidden_size", width)}});
  if (!with_past) return {encoder, decoder};
  ExportedFile next = with_past_of(model, axes, source, decoder);  // tells the decoder of its layers
  return {encoder, decoder, next};
}

// Keys and values of each layer behind the other inputs, in shapes that a pass of two tokens shows.
void add_past(const transom::Model& model, const InputAxes& axes, ExportedFile& file) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer || !writer->can_generate() || writer->has_encoder())
    fail(ErrorKind::kUsage, "export: {}: past keys and values are offered for decoders that generate text",
         model.architecture());
  const NoGradient inference;
  const ModeScope lazy(Mode::kLazy);
  KeyValueCache cache(1, {1, 1});
  cache.begin(2);
  ForwardContext context;
  context.cache = &cache;
  model.forward({{"input_ids", make_input({DType::kInt64, {1, 2}})}}, context);
  const std::vector<Tensor> tensors = cache.tensors();
  file.past_layers = static_cast<int64_t>(tensors.size() / 2);
  for (size_t i = 0; i < tensors.size(); ++i)
    file.inputs.push_back(
        {fmt::format("past_key_values.{}.{}", i / 2, i % 2 == 0 ? "key" : "value"),
         tensors[i].dtype(),
         {axes.batch, fixed("num_heads", tensors[i].dim(2)), axes.past, fixed("head_size", tensors[i].dim(3))}});
}

}  // namespace

std::vector<ExportedFile> exported_files(const transom::Model& model, bool with_past) {
  const Config& config = model.config();
  const std::string type = config.get_string("model_type", config.has("pretrained_cfg") ? "timm_wrapper" : "");
  const std::string& architecture = model.architecture();
  const InputAxes axes(config);
  ExportedFile file{"model.onnx", FilePart::kWhole, {}};
  if (is_one_of(type, {"t5", "mt5", "bart", "mbart", "marian", "whisper"}) &&
      (architecture.ends_with("ForConditionalGeneration") || architecture.ends_with("MTModel")))
    return sequence_to_sequence(model, config, axes, type, with_past);
  if (with_past && (!config.has("vocab_size") ||
                    is_one_of(type, {"clip", "wav2vec2", "hubert", "whisper", "t5", "mt5", "bart", "mbart", "marian"})))
    fail(ErrorKind::kUsage, "export: {}: past keys and values are offered for models that generate text", architecture);
  if (is_one_of(type, {"vit", "dinov2", "swin"}) || architecture.starts_with("CLIPVision") ||
      architecture == "CLIPForImageClassification") {
    file.inputs = {pixels(config, axes.batch, false)};
  } else if (is_one_of(type, {"convnext", "resnet", "efficientnet", "timm_wrapper"})) {
    file.inputs = {pixels(config, axes.batch, true)};
  } else if (architecture == "CLIPModel") {
    const InputAxis texts{"text_batch_size", kTextBatch};
    InputAxis images = axes.batch;
    images.name = "image_batch_size";
    file.inputs = {tokens("input_ids", texts, axes.sequence), pixels(config, images, false),
                   tokens("attention_mask", texts, axes.sequence)};
  } else if (is_one_of(type, {"wav2vec2", "hubert"})) {
    const InputAxis samples{"sequence_length", kSamples};
    file.inputs = {{"input_values", DType::kFloat32, {axes.batch, samples}},
                   tokens("attention_mask", axes.batch, samples)};
    file.inputs[1].optional = true;  // optimum-onnx gives the sounds alone
  } else if (type == "whisper" && !architecture.ends_with("ForCausalLM")) {
    file.inputs = {sound_features(config, axes)};
    if (architecture == "WhisperModel")
      file.inputs.push_back(tokens("decoder_input_ids", axes.batch, axes.decoder_sequence));
  } else if (config.has("vocab_size") || architecture.starts_with("CLIPText")) {
    file.inputs = {tokens("input_ids", axes.batch, axes.sequence)};
    if (!architecture.starts_with("CLIPText"))
      file.inputs.push_back(tokens("attention_mask", axes.batch, with_past ? axes.all() : axes.sequence));
    const bool types = is_one_of(type, {"bert", "albert", "electra"}) ||
                       (type == "deberta-v2" && config.get_int("type_vocab_size", 0) > 0);
    if (types) file.inputs.push_back(tokens("token_type_ids", axes.batch, axes.sequence));
    if (takes_positions(type, architecture)) file.inputs.push_back(tokens("position_ids", axes.batch, axes.sequence));
    if (is_one_of(architecture, {"T5Model", "MT5Model", "BartModel", "MarianModel"}))
      file.inputs.push_back(tokens("decoder_input_ids", axes.batch, axes.decoder_sequence));
    if (architecture.ends_with("ForMultipleChoice"))
      for (FileInput& input : file.inputs) input.axes.insert(input.axes.begin() + 1, axes.choices);
    if (with_past) add_past(model, axes, file);
  } else {
    fail("export: {} of type {} is not offered: its inputs have no names in optimum-onnx", architecture, quoted(type));
  }
  return {file};
}

bool is_exported_output(const std::string& name) {
  static const std::set<std::string> kept_back = {"loss",          "aux_loss",         "router_logits",
                                                  "hidden_states", "extract_features", "encoder_last_hidden_state"};
  return !kept_back.contains(name) && !name.ends_with("hidden_states");
}

}  // namespace transom::onnx
