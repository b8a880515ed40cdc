// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/task_inputs.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "files/config/config.h"
#include "graph/ir/node.h"
#include "models/generative.h"
#include "models/loading/maximum_tokens.h"
#include "models/nn/attention/cache.h"
#include "models/onnx/export/file_pass.h"
#include "models/records.h"
#include "runtime/tensor/mode_scope.h"

namespace transom::onnx {
namespace {

using Kind = FamilyInput::Kind;

// Extents that no width of a model is likely to have, and that have no simple relation to each other.
const Extent kBatch = {3, 5, 2, 7}, kTextBatch = {4, 3, 7, 2}, kSequence = {11, 13, 17, 19},
             kShortSequence = {5, 6, 7, 4}, kDecoderSequence = {9, 14, 6, 10}, kShortDecoderSequence = {6, 4, 5, 7},
             kPast = {8, 10, 15, 12}, kShortPast = {3, 2, 6, 5}, kChoices = {4, 2, 3, 6},
             kSamples = {2611, 3109, 4007, 3517}, kHeight = {72, 99, 166, 233}, kWidth = {131, 88, 192, 257};

InputAxis fixed(const std::string& name, int64_t extent) { return {name, constant_extent(extent)}; }

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

// An axis of an input as its record has it: of the extent that the configuration says, or any.
InputAxis axis_of(const Config& config, const FamilyInput& input, size_t place, const InputAxes& axes) {
  const InputExtent& extent = input.axes[place];
  if (const std::optional<int64_t> known = extent_of(config, extent)) return fixed(extent.name, *known);
  InputAxis axis = axes.sequence;
  if (input.kind == Kind::kDecoderTokens) axis = axes.decoder_sequence;
  if (input.kind == Kind::kSamples || input.kind == Kind::kSampleMask) axis.extent = kSamples;
  if (input.kind == Kind::kPixels) axis.extent = place == 1 ? kHeight : kWidth;
  axis.name = extent.name;
  return axis;
}

bool is_exported(const FamilyInput& input, const FamilyHead& head, const Config& config) {
  switch (input.exported) {
    case FamilyInput::Export::kNever:
      return false;
    case FamilyInput::Export::kStates:
      return *head.task == HeadTask::kBody || *head.task == HeadTask::kCausalLM;
    default:
      return input.kind != Kind::kTypes || extent_of(config, input.table).value_or(0) > 0;
  }
}

FileInput file_input(const Config& config, const FamilyInput& input, const FamilyHead& head, const InputAxes& axes) {
  const bool floating = input.kind == Kind::kPixels || input.kind == Kind::kSamples || input.kind == Kind::kSpectrum;
  FileInput result{input.name, floating ? DType::kFloat32 : DType::kInt64, {axes.batch}};
  if (*head.task == HeadTask::kContrastive)  // as many texts as pictures need not be
    result.axes[0] =
        input.kind == Kind::kPixels ? InputAxis{"image_batch_size", kBatch} : InputAxis{"text_batch_size", kTextBatch};
  if (*head.task == HeadTask::kMultipleChoice) result.axes.push_back(axes.choices);
  for (size_t place = 0; place < input.axes.size(); ++place) result.axes.push_back(axis_of(config, input, place, axes));
  result.optional = input.exported == FamilyInput::Export::kOptional;
  return result;
}

NamedTensors first_placeholders(const std::vector<FileInput>& inputs) {
  NamedTensors made;
  for (const FileInput& input : inputs) {
    Shape shape;
    for (const InputAxis& axis : input.axes) shape.push_back(axis.extent[0]);
    made.set(input.name, make_input({input.dtype, shape}));
  }
  return made;
}

// Keys and values of each layer, in shapes that a pass of one token shows: the decoder's own, and those of what the
// encoder gave. `first`, which gives them, is told of how many layers.
ExportedFile with_past_of(const transom::Model& model, const InputAxes& axes, const InputAxis& source,
                          ExportedFile& first) {
  ExportedFile file{"decoder_with_past_model.onnx", FilePart::kDecoderWithPast, {}};
  ExportedFile probe = first;
  probe.past_layers = 1;
  const NamedTensors inputs = first_placeholders(first.inputs);
  for (const FileInput& input : first.inputs)
    if (input.name != "encoder_hidden_states") file.inputs.push_back(input);
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

// [B, S, D] of the encoder at the first signature.
Shape states_of_encoder_file(const transom::Model& model, const ExportedFile& encoder) {
  const NoGradient inference;
  const ModeScope lazy(Mode::kLazy);
  return run_file(model, encoder, first_placeholders(encoder.inputs)).at("last_hidden_state").shape();
}

// Encoder and decoder in files of their own. What the encoder reads are the inputs of the first; the mask of a text is
// one of the second, too.
std::vector<ExportedFile> sequence_to_sequence(const transom::Model& model, const InputAxes& axes, bool with_past) {
  const Config& config = model.config();
  ExportedFile encoder{"encoder_model.onnx", FilePart::kEncoder, {}},
      decoder{"decoder_model.onnx", FilePart::kDecoder, {}};
  InputAxis source{"encoder_sequence_length", axes.sequence.extent};
  for (const FamilyInput& input : inputs_of(model)) {
    if (input.kind == Kind::kDecoderTokens || !is_exported(input, head_of(model), config)) continue;
    FileInput read = file_input(config, input, head_of(model), axes);
    if (input.kind == Kind::kTokens || input.kind == Kind::kMask) read.axes.back() = source;
    if (input.kind == Kind::kMask) decoder.inputs.push_back({"encoder_attention_mask", read.dtype, read.axes});
    if (input.kind == Kind::kSpectrum)  // two frames become one state
      source = fixed("encoder_sequence_length", read.axes.back().extent[0] / input.axes.back().times);
    encoder.inputs.push_back(std::move(read));
  }
  decoder.inputs.push_back(tokens("input_ids", axes.batch, axes.decoder_sequence));
  const Shape states = states_of_encoder_file(model, encoder);
  if (encoder.inputs[0].name == "pixel_values") source = fixed("encoder_sequence_length", states[1]);
  decoder.inputs.push_back(
      {"encoder_hidden_states", DType::kFloat32, {axes.batch, source, fixed("hidden_size", states[2])}});
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
  if (std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.rank() != 4; }))
    fail(ErrorKind::kUnsupported,
         "export: {}: layers that keep a state of the text, and no keys and values, have no inputs in files with "
         "past keys and values; without --with_past the model is exported",
         model.architecture());
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
  const FamilyHead& head = head_of(model);
  const InputAxes axes(config);
  if (is_encoder_decoder(head)) return sequence_to_sequence(model, axes, with_past);
  if (with_past && *head.task != HeadTask::kCausalLM)
    fail(ErrorKind::kUsage, "export: {}: past keys and values are offered for models that generate text",
         model.architecture());
  ExportedFile file{"model.onnx", FilePart::kWhole, {}};
  for (const FamilyInput& input : inputs_of(model)) {
    if (!is_exported(input, head, config)) continue;
    file.inputs.push_back(file_input(config, input, head, axes));
    if (with_past && input.kind == Kind::kMask) file.inputs.back().axes.back() = axes.all();
  }
  if (file.inputs.empty())
    fail("export: {} is not offered: its inputs have no names in optimum-onnx", model.architecture());
  if (with_past) add_past(model, axes, file);
  return {file};
}

bool is_exported_output(const std::string& name) {
  static const std::set<std::string> kept_back = {"loss",          "aux_loss",         "router_logits",
                                                  "hidden_states", "extract_features", "encoder_last_hidden_state"};
  return !kept_back.contains(name) && !name.ends_with("hidden_states");
}

}  // namespace transom::onnx
