// SPDX-License-Identifier: Apache-2.0
// RT-DETR (Zhao et al., 2023) and its second version (Lv et al., 2024): detectors that choose their queries among the
// places of the maps that they see.
#include "base/error.h"
#include "models/families/rt_detr/rt_detr_backbone.h"
#include "models/families/rt_detr/rt_detr_encoder.h"
#include "models/families/rt_detr/rt_detr_queries.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

// pixel_mask is what processors give beside padded pictures: the model sees the padding as it sees the picture.
const std::vector<std::string> kRTDetrInputs = {"pixel_values", "pixel_mask"};

struct RTDetrOutput {
  RTDetrQueries queries;
  RTDetrDecoded decoded;
  RTDetrNoisyQueries noisy;  // `groups` is 0 where there are none; they stand before the queries
};

class RTDetrBody {
 public:
  RTDetrBody(const Config& config, const RTDetrConfig& c, const Scope& scope, bool has_heads)
      : c_(c),
        backbone_(config, scope / "backbone" / "model"),
        encoder_(scope / "encoder", c),
        selection_(scope, c),
        decoder_(scope / "decoder", c, has_heads) {
    const std::vector<int64_t>& widths = backbone_.widths();
    if (static_cast<int64_t>(widths.size()) != c.levels)
      fail("{}: encoder_in_channels: expected a number for each of the {} maps of the backbone, found {}",
           config.where(), widths.size(), c.levels);
    for (int64_t i = 0; i < c.levels; ++i)
      encoder_input_proj_.emplace_back(scope / "encoder_input_proj" / i, widths[static_cast<size_t>(i)],
                                       c.encoder_hidden_dim, RTDetrConvolution::Form{.convolution = "0", .norm = "1"});
    for (int64_t i = 0; i < c.num_feature_levels; ++i) {
      const bool coarser = i >= c.levels;  // than the coarsest map of the encoder, of which it is made
      decoder_input_proj_.emplace_back(scope / "decoder_input_proj" / i, c.encoder_hidden_dim, c.d_model,
                                       RTDetrConvolution::Form{.window = coarser ? 3 : 1,
                                                               .stride = coarser ? 2 : 1,
                                                               .epsilon = c.batch_norm_eps,
                                                               .convolution = "0",
                                                               .norm = "1"});
    }
    if (c.num_denoising > 0)
      denoising_class_embed_.emplace(scope / "denoising_class_embed", c.num_labels + 1, c.d_model, 0.02, c.num_labels);
  }

  // `labels` are those of which queries are made in training.
  RTDetrOutput operator()(const NamedTensors& inputs, const BoxLabels& labels, ForwardContext& context) const {
    const Tensor& image = image_input(inputs, backbone_.num_channels());
    std::vector<Tensor> maps = backbone_(image, context);
    for (size_t i = 0; i < maps.size(); ++i) maps[i] = encoder_input_proj_[i](maps[i], context);
    const RTDetrMemory memory = memory_of(encoder_(maps, context), context);
    if (!context.training && c_.anchor_image_size) expect_anchor_size(memory);
    RTDetrOutput output{.queries = selection_(memory, context), .decoded = {}, .noisy = {}};
    Tensor states = output.queries.states, boxes = output.queries.boxes, mask;
    if (context.training && denoising_class_embed_ && labels.boxes.defined() && labels.classes.dim(1) > 0) {
      output.noisy = rt_detr_noisy_queries(labels, c_, context);
      states = concatenate({cast((*denoising_class_embed_)(output.noisy.classes, context), states.dtype()), states}, 1);
      boxes = concatenate({output.noisy.boxes, boxes}, 1);
      mask = output.noisy.mask;
    }
    output.decoded = decoder_(states, boxes, mask, memory, context);
    return output;
  }

 private:
  RTDetrMemory memory_of(const std::vector<Tensor>& maps, ForwardContext& context) const {
    RTDetrMemory memory;
    std::vector<Tensor> sequences;
    for (size_t i = 0; i < decoder_input_proj_.size(); ++i) {
      const Tensor map = decoder_input_proj_[i](i < maps.size() ? maps[i] : maps.back(), context);
      memory.heights.push_back(map.dim(2));
      memory.widths.push_back(map.dim(3));
      sequences.push_back(permute(flatten(map, 2, 3), {0, 2, 1}));
    }
    memory.places = concatenate(sequences, 1);
    return memory;
  }

  void expect_anchor_size(const RTDetrMemory& memory) const {
    const auto& [height, width] = *c_.anchor_image_size;
    bool fits = memory.heights.size() == c_.feat_strides.size();
    for (size_t i = 0; fits && i < c_.feat_strides.size(); ++i)
      fits = memory.heights[i] == height / c_.feat_strides[i] && memory.widths[i] == width / c_.feat_strides[i];
    if (!fits)
      fail("pixel_values: expected pictures of {} x {} pixels (anchor_image_size, with feat_strides)", height, width);
  }

  RTDetrConfig c_;
  RTDetrBackbone backbone_;
  std::vector<RTDetrConvolution> encoder_input_proj_;
  RTDetrEncoder encoder_;
  std::optional<Embedding> denoising_class_embed_;
  std::vector<RTDetrConvolution> decoder_input_proj_;
  RTDetrSelection selection_;
  RTDetrDecoder decoder_;
};

// What both classes give of the decoder.
NamedTensors with_decoder_states(NamedTensors outputs, const RTDetrOutput& output, const ForwardContext& context) {
  std::vector<Tensor> states = output.decoded.states, boxes, logits;
  for (const RTDetrDetections& each : output.decoded.heads) {
    boxes.push_back(each.boxes);
    logits.push_back(each.logits);
  }
  if (boxes.empty()) boxes.assign(states.size(), output.decoded.boxes);
  outputs.set("last_hidden_state", states.back());
  outputs.set("intermediate_hidden_states", stack(states, 1));
  if (!logits.empty()) outputs.set("intermediate_logits", stack(logits, 1));
  outputs.set("intermediate_reference_points", stack(boxes, 1));
  outputs.set("init_reference_points", output.queries.boxes);
  outputs.set("enc_topk_logits", output.queries.logits);
  outputs.set("enc_topk_bboxes", output.queries.proposals);
  outputs.set("enc_outputs_class", output.queries.all_logits);
  outputs.set("enc_outputs_coord_logits", output.queries.all_boxes);
  if (context.output_hidden_states)
    for (size_t i = 0; i < states.size(); ++i) outputs.set("decoder_hidden_states." + std::to_string(i + 1), states[i]);
  return outputs;
}

template <bool second>
class RTDetrModel : public Model {
 public:
  RTDetrModel(const Config& config, const Scope& scope) : body_(config, RTDetrConfig(config, second), scope, false) {}

 protected:
  std::vector<std::string> input_names() const override { return kRTDetrInputs; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const RTDetrOutput output = body_(inputs, {}, context);
    return with_decoder_states({}, output, context);
  }

 private:
  RTDetrBody body_;
};

template <bool second>
class RTDetrForObjectDetection : public Model {
 public:
  RTDetrForObjectDetection(const Config& config, const Scope& scope)
      : c_(config, second), model_(config, c_, scope / "model", true) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "pixel_mask", "class_labels", "boxes"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const BoxLabels labels = box_labels(inputs, c_.num_labels);
    const RTDetrOutput output = model_(inputs, labels, context);
    const int64_t Q = c_.num_queries;
    const RTDetrDetections& last = output.decoded.heads.back();
    const Tensor loss = labels.boxes.defined() ? loss_of(output, labels, context) : Tensor();
    NamedTensors outputs = with_loss(loss, {{"logits", behind(last.logits, Q)}, {"pred_boxes", behind(last.boxes, Q)}});
    return with_decoder_states(std::move(outputs), output, context);
  }

 private:
  static Tensor behind(const Tensor& x, int64_t queries) { return slice(x, 1, x.dim(1) - queries, x.dim(1)); }

  Tensor loss_of(const RTDetrOutput& output, const BoxLabels& labels, ForwardContext& context) const {
    const std::vector<RTDetrDetections>& heads = output.decoded.heads;
    Tensor all;
    const auto add = [&](const Tensor& logits, const Tensor& boxes) {
      const Tensor matches = varifocal_matches(logits, boxes, labels, c_.weights, context.computing);
      const Tensor loss = varifocal_loss(logits, boxes, matches, labels, c_.weights);
      all = all.defined() ? all + loss : loss;
    };
    for (size_t i = c_.auxiliary_loss ? 0 : heads.size() - 1; i < heads.size(); ++i)
      add(behind(heads[i].logits, c_.num_queries), behind(heads[i].boxes, c_.num_queries));
    if (c_.auxiliary_loss) {
      add(output.queries.logits, output.queries.proposals);
      const RTDetrNoisyQueries& noisy = output.noisy;
      for (size_t i = 0; noisy.groups > 0 && i < heads.size(); ++i) {
        const int64_t T = noisy.classes.dim(1);
        const Tensor logits = slice(heads[i].logits, 1, 0, T), boxes = slice(heads[i].boxes, 1, 0, T);
        const Tensor loss = varifocal_loss(logits, boxes, noisy.matches, noisy.labels, c_.weights, noisy.counted);
        all = all + loss * (1 / static_cast<double>(noisy.groups));
      }
    }
    return mean_of(all, number_of_boxes(labels), context);
  }

  RTDetrConfig c_;
  RTDetrBody model_;
};

// Of the decoder, and of all places and the best of them.
std::vector<std::string> rt_detr_outputs(std::vector<std::string> first) {
  for (const char* name :
       {"last_hidden_state", "intermediate_hidden_states", "intermediate_reference_points", "init_reference_points",
        "enc_topk_logits", "enc_topk_bboxes", "enc_outputs_class", "enc_outputs_coord_logits"})
    first.emplace_back(name);
  return first;
}

FamilyHead rt_detr_head() {
  return {.task = HeadTask::kObjectDetection,
          .pipelines = {"object-detection"},
          .labels = HeadLabels::kBoxes,
          .modules = {"model.decoder.class_embed", "model.decoder.bbox_embed"},
          .vocabulary = none,
          .outputs = rt_detr_outputs({"logits", "pred_boxes", "intermediate_logits"})};
}

FamilyHead rt_detr_body_head() { return body_head({"image-feature-extraction"}, rt_detr_outputs({})); }

// Anchors and positions follow the extents, so that an exported graph has its own.
FamilyInput rt_detr_pixels() {
  return {.name = "pixel_values",
          .kind = FamilyInput::Kind::kPixels,
          .axes = {{.name = "num_channels", .fields = {"backbone_config.num_channels"}, .otherwise = 3},
                   {.name = "height", .fields = {"anchor_image_size.0"}, .otherwise = 640},
                   {.name = "width", .fields = {"anchor_image_size.1"}, .otherwise = 640}}};
}

Family rt_detr_record(const char* model_type, std::vector<Architecture> architectures) {
  return {.model_type = model_type,
          .base_prefix = "model",
          .architectures = std::move(architectures),
          .inputs = {rt_detr_pixels()},
          .processors = {.tokenizer = none,
                         .image_processor = "RTDetr",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

}  // namespace

static Family rt_detr_family() {
  return rt_detr_record("rt_detr",
                        {{"RTDetrModel", rt_detr_body_head(), make_model<RTDetrModel<false>>},
                         {"RTDetrForObjectDetection", rt_detr_head(), make_model<RTDetrForObjectDetection<false>>}});
}

static Family rt_detr_v2_family() {
  return rt_detr_record("rt_detr_v2",
                        {{"RTDetrV2Model", rt_detr_body_head(), make_model<RTDetrModel<true>>},
                         {"RTDetrV2ForObjectDetection", rt_detr_head(), make_model<RTDetrForObjectDetection<true>>}});
}

const RegisterFamilies kRTDetrFamilies{rt_detr_family, rt_detr_v2_family};

}  // namespace transom
