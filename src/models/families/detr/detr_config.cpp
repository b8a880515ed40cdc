// SPDX-License-Identifier: Apache-2.0
#include "models/families/detr/detr_config.h"

#include "base/error.h"
#include "models/shared/vision_inputs.h"

namespace transom {

DetectionWeights detection_weights(const Config& config) {
  return {.class_cost = config.get_float("class_cost", 1),
          .bbox_cost = config.get_float("bbox_cost", 5),
          .giou_cost = config.get_float("giou_cost", 2),
          .bbox = config.get_float("bbox_loss_coefficient", 5),
          .giou = config.get_float("giou_loss_coefficient", 2),
          .no_object = config.get_float("eos_coefficient", 0.1)};
}

DetrConfig::DetrConfig(const Config& config, bool norms_first)
    : d_model(positive(config, "d_model", 256)),
      num_queries(positive(config, "num_queries", 100)),
      num_labels(number_of_labels(config)),
      encoder_layers(positive(config, "encoder_layers", 6)),
      encoder_attention_heads(positive(config, "encoder_attention_heads", 8)),
      encoder_ffn_dim(positive(config, "encoder_ffn_dim", 2048)),
      decoder_layers(positive(config, "decoder_layers", 6)),
      decoder_attention_heads(positive(config, "decoder_attention_heads", 8)),
      decoder_ffn_dim(positive(config, "decoder_ffn_dim", 2048)),
      activation_function(config.get_string("activation_function", "relu")),
      dropout(config.get_float("dropout", 0.1)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      activation_dropout(config.get_float("activation_dropout", 0)),
      init_std(config.get_float("init_std", 0.02)),
      auxiliary_loss(config.get_bool("auxiliary_loss", false)),
      norms_first(norms_first),
      weights(detection_weights(config)) {
  const std::string positions = config.get_string("position_embedding_type", "sine");
  if (positions != "sine" && positions != "learned")
    fail("{}: position_embedding_type: expected sine or learned, found {}", config.where(), quoted(positions));
  learned_positions = positions == "learned";
  if (d_model % 4 != 0) fail("{}: d_model: expected a multiple of 4, found {}", config.where(), d_model);
  for (const int64_t heads : {encoder_attention_heads, decoder_attention_heads})
    if (d_model % heads != 0) fail("{}: {} attention heads do not divide d_model, {}", config.where(), heads, d_model);
  // Of the class that gives masks, of new weights, and of backbones that backbone_config describes.
  for (const char* elsewhere : {"mask_loss_coefficient", "dice_loss_coefficient", "init_xavier_std", "dilation",
                                "num_channels", "use_timm_backbone"})
    config.get_json(elsewhere);
  if (norms_first)  // the others do not read it
    for (const char* field : {"encoder_layerdrop", "decoder_layerdrop"})
      if (config.get_float(field, 0) > 0)
        fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out", config.where(), field,
             config.get_float(field, 0));
}

}  // namespace transom
