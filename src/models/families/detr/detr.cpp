// SPDX-License-Identifier: Apache-2.0
// DETR (Carion et al., 2020), and Table Transformer (Smock et al., 2022), whose layers norm what they read: detectors
// that turn a fixed number of queries into boxes.
#include "models/families/detr/detr_body.h"
#include "models/nn/vision/stacked_layers.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

template <bool norms_first>
class DetrModel : public Model {
 public:
  DetrModel(const Config& config, const Scope& scope) : body_(config, DetrConfig(config, norms_first), scope) {}

 protected:
  std::vector<std::string> input_names() const override { return detr_input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const DetrOutput output = body_(inputs, context);
    NamedTensors outputs{{"last_hidden_state", output.last_hidden_state}};
    std::vector<Tensor> layers;
    for (const Tensor& layer : output.by_layer) layers.push_back(unsqueeze(layer, 0));
    if (!layers.empty()) outputs.set("intermediate_hidden_states", concatenate(layers, 0));
    return with_detr_states(std::move(outputs), output);
  }

 private:
  DetrBody body_;
};

// The classes and the boxes of queries, and what they learn from.
class DetectionHead {
 public:
  DetectionHead(const Scope& scope, const DetrConfig& c)
      : c_(c),
        class_labels_classifier_(scope / "class_labels_classifier", c.d_model, c.num_labels + 1,
                                 {.deviation = c.init_std}),
        bbox_predictor_(scope / "bbox_predictor", c.d_model, 4, 3, c.init_std) {}

  struct Detections {
    Tensor logits, boxes;
  };
  Detections detections(const Tensor& queries, ForwardContext& context) const {
    return {class_labels_classifier_(queries, context), sigmoid(bbox_predictor_(queries, context))};
  }

  NamedTensors outputs(const DetrOutput& output, const NamedTensors& inputs, ForwardContext& context) const {
    const Detections last = detections(output.last_hidden_state, context);
    const BoxLabels labels = box_labels(inputs, c_.num_labels);
    Tensor loss;
    if (labels.boxes.defined()) {
      loss = detection_loss(last.logits, last.boxes, labels, c_.weights, context);
      for (size_t i = 0; i + 1 < output.by_layer.size(); ++i) {
        const Detections each = detections(output.by_layer[i], context);
        loss = loss + detection_loss(each.logits, each.boxes, labels, c_.weights, context);
      }
    }
    return with_loss(loss, with_detr_states({{"logits", last.logits},
                                             {"pred_boxes", last.boxes},
                                             {"last_hidden_state", output.last_hidden_state}},
                                            output));
  }

 private:
  DetrConfig c_;
  Linear class_labels_classifier_;
  StackedLayers bbox_predictor_;  // centre and extents of a box, in parts of the picture
};

std::vector<std::string> with_box_labels(std::vector<std::string> names) {
  names.insert(names.end(), {"class_labels", "boxes"});
  return names;
}

template <bool norms_first>
class DetrForObjectDetection : public Model {
 public:
  DetrForObjectDetection(const Config& config, const Scope& scope)
      : c_(config, norms_first), model_(config, c_, scope / "model"), head_(scope, c_) {}

 protected:
  std::vector<std::string> input_names() const override { return with_box_labels(detr_input_names()); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return head_.outputs(model_(inputs, context), inputs, context);
  }

 private:
  DetrConfig c_;
  DetrBody model_;
  DetectionHead head_;
};

FamilyHead detection_head() {
  return {.task = HeadTask::kObjectDetection,
          .pipelines = {"object-detection"},
          .labels = HeadLabels::kBoxes,
          .modules = {"class_labels_classifier", "bbox_predictor"},
          .vocabulary = none,
          .outputs = {"logits", "pred_boxes", "last_hidden_state", "encoder_last_hidden_state"}};
}

Family detector_family(const char* model_type, std::vector<Architecture> architectures) {
  return {.model_type = model_type,
          .base_prefix = "model",
          .architectures = std::move(architectures),
          .inputs = {pixels_of_any_size()},
          .processors =
              {.tokenizer = none, .image_processor = "Detr", .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const std::vector<std::string> kDetrBodyOutputs = {"last_hidden_state", "encoder_last_hidden_state"};

}  // namespace

static Family detr_family() {
  return detector_family(
      "detr", {{"DetrModel", body_head({"image-feature-extraction"}, kDetrBodyOutputs), make_model<DetrModel<false>>},
               {"DetrForObjectDetection", detection_head(), make_model<DetrForObjectDetection<false>>}});
}

static Family table_transformer_family() {
  return detector_family(
      "table-transformer",
      {{"TableTransformerModel", body_head({"image-feature-extraction"}, kDetrBodyOutputs),
        make_model<DetrModel<true>>},
       {"TableTransformerForObjectDetection", detection_head(), make_model<DetrForObjectDetection<true>>}});
}

const RegisterFamilies kDetrFamilies{detr_family, table_transformer_family};

}  // namespace transom
