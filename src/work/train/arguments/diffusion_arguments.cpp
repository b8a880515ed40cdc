// SPDX-License-Identifier: Apache-2.0
// The arguments of diffusion, by the names of the scripts of Diffusers: train_text_to_image, train_dreambooth,
// textual_inversion, train_controlnet, each with those of their relatives (_lora, _sdxl, _sd3, _flux), and
// train_unconditional.
#include "work/train/arguments/diffusion_arguments.h"

namespace transom {
namespace {

using D = ScriptArguments;

constexpr std::string_view kNoAttention = "there is one implementation of attention on each device";
constexpr std::string_view kNoPictures =
    "an argument of Diffusers' scripts, which draw during training: draw with `transom run text-to-image` from a "
    "checkpoint";

const Argument kDiffusionArguments[] = {
    section("Diffusion"),
    field<&D::resolution>("resolution",
                          "Extent of the square that is cut out of each picture (default: what the model is made for).")
        .at_least(1)
        .at_most(8192),
    field<&D::center_crop>("center_crop", "Cut out the middle of pictures, not a part that is drawn."),
    field<&D::image_interpolation_mode>("image_interpolation_mode", "How pictures are resized.")
        .one_of({"lanczos", "bilinear", "bicubic", "box", "nearest", "hamming"}),
    field<&D::prediction_type>("prediction_type", "What the network says (default: as the schedule has it).")
        .one_of({"epsilon", "v_prediction", "sample"}),
    field<&D::snr_gamma>("snr_gamma", "Weigh timesteps by their signal-to-noise ratio, up to this (Min-SNR; 5).")
        .above(0),
    field<&D::noise_offset>("noise_offset", "How much noise is added to each channel as a whole."),
    field<&D::input_perturbation>("input_perturbation", "How much noise is added to the input beside its own (0.1)."),
    field<&D::dream_training>("dream_training", "Train on the network's own estimates too (DREAM)."),
    field<&D::dream_detail_preservation>("dream_detail_preservation", "The power by which estimates count then."),
    field<&D::proportion_empty_prompts>("proportion_empty_prompts", "Part of the captions that are left out.")
        .at_least(0)
        .at_most(1),
    field<&D::timestep_bias_strategy>("timestep_bias_strategy", "Which timesteps are drawn more often.")
        .one_of({"none", "earlier", "later", "range"}),
    field<&D::timestep_bias_multiplier>("timestep_bias_multiplier", "How much more often they are.").above(0),
    field<&D::timestep_bias_begin>("timestep_bias_begin", "With range, the first of them.").at_least(0),
    field<&D::timestep_bias_end>("timestep_bias_end", "With range, the one behind the last.").at_least(0),
    field<&D::timestep_bias_portion>("timestep_bias_portion", "With earlier and later, the part of all that they are.")
        .at_least(0)
        .at_most(1),
    field<&D::use_ema>("use_ema", "Save the moving average of the weights in place of the last ones."),
    field<&D::ema_inv_gamma>("ema_inv_gamma", "How soon the average forgets: 1 / gamma.").above(0),
    field<&D::ema_power>("ema_power", "The power by which it forgets more slowly."),
    field<&D::ema_max_decay>("ema_max_decay", "The most that it keeps in an update.").at_least(0).at_most(1),
    field<&D::ddpm_num_steps>("ddpm_num_steps", "Timesteps of a new schedule.").at_least(1).at_most(100000),
    field<&D::ddpm_beta_schedule>("ddpm_beta_schedule", "How noise grows in a new schedule.")
        .one_of({"linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid"}),
    field<&D::scale_lr>("scale_lr", "Multiply the learning rate by the rows of an update."),
    field<&D::pretrained_vae_model_name_or_path>("pretrained_vae_model_name_or_path",
                                                 "Autoencoder, where it is not the pipeline's."),

    section("DreamBooth"),
    field<&D::instance_prompt>("instance_prompt", "The text of all pictures: a photo of sks dog."),
    field<&D::class_prompt>("class_prompt", "The text of pictures of the class: a photo of a dog."),
    field<&D::class_data_dir>("class_data_dir", "Folder of pictures of the class."),
    field<&D::with_prior_preservation>("with_prior_preservation",
                                       "Train on pictures of the class beside, so that it stays what it was."),
    field<&D::prior_loss_weight>("prior_loss_weight", "Weight of their loss."),
    field<&D::num_class_images>("num_class_images", "Pictures of the class that are used.").at_least(1),
    field<&D::repeats>("repeats", "How often a pass goes over each picture (default: 1; of textual inversion 100).")
        .at_least(1)
        .at_most(1000000),

    section("ControlNet"),
    field<&D::controlnet_model_name_or_path>("controlnet_model_name_or_path",
                                             "ControlNet to begin with (default: the U-Net's own way down)."),
    field<&D::conditioning_image_column>("conditioning_image_column", "Column of the pictures that it sees."),

    section("Textual inversion"),
    field<&D::placeholder_token>("placeholder_token", "The new word: <cat-toy>."),
    field<&D::initializer_token>("initializer_token", "The word that its vectors begin as, which is one token: toy."),
    field<&D::num_vectors>("num_vectors", "Vectors that stand for the word.").at_least(1).at_most(70),
    field<&D::learnable_property>("learnable_property", "What is learned.").one_of({"object", "style"}),
    field<&D::save_as_full_pipeline>("save_as_full_pipeline", "Save a pipeline, too: not carried out."),

    section("Flows: Stable Diffusion 3 and FLUX"),
    field<&D::weighting_scheme>("weighting_scheme",
                                "Which places between noise and picture are drawn more often, or count more (default: "
                                "logit_normal of Stable Diffusion 3, none of FLUX).")
        .one_of({"sigma_sqrt", "logit_normal", "mode", "cosmap", "none"}),
    field<&D::logit_mean>("logit_mean", "Mean of logit_normal."),
    field<&D::logit_std>("logit_std", "Standard deviation of logit_normal.").above(0),
    field<&D::mode_scale>("mode_scale", "Scale of mode."),
    field<&D::precondition_outputs>("precondition_outputs",
                                    "Of Stable Diffusion 3: the loss is over the picture that the network means."),
    field<&D::guidance_scale>("guidance_scale", "Of FLUX (dev): the guidance that the network is told."),
    field<&D::max_sequence_length>("max_sequence_length",
                                   "Tokens that T5 reads (default: 77 of Stable Diffusion 3, 512 of FLUX).")
        .at_least(1)
        .at_most(512),
    field<&D::lora_blocks>("lora_blocks", "Numbers of the blocks that get adapters (default: all)."),

    alias("lora_layers", "lora_target_modules"),
    alias("pretrained_model_name_or_path", "model_name_or_path"),
    alias("model_config_name_or_path", "config_name"),
    alias("revision", "model_revision"),
    alias("train_data_dir", "train_dir"),
    alias("instance_data_dir", "train_dir"),
    alias("train_batch_size", "per_device_train_batch_size"),
    alias("eval_batch_size", "per_device_eval_batch_size"),
    alias("num_epochs", "num_train_epochs"),
    alias("max_train_steps", "max_steps"),
    alias("lr_scheduler", "lr_scheduler_type"),
    alias("lr_warmup_steps", "warmup_steps"),
    alias("adam_weight_decay", "weight_decay"),
    alias("checkpointing_steps", "save_steps"),
    alias("checkpoints_total_limit", "save_total_limit"),
    alias("allow_tf32", "tf32"),
    alias("rank", "lora_r"),
    ignored("pre_compute_text_embeddings", "texts are computed ahead in any case"),
    ignored("enable_xformers_memory_efficient_attention", kNoAttention),
    ignored("enable_npu_flash_attention", kNoAttention),
    ignored("cache_latents", "pictures whose part is the same each time are encoded ahead in any case"),
    ignored("upcast_before_saving", "what is saved has the type of the weights that are trained"),
    ignored("prior_generation_precision", "pictures of the class are drawn by `transom run text-to-image`"),
    ignored("sample_batch_size", "pictures of the class are drawn by `transom run text-to-image`"),
    ignored("set_grads_to_none", "gradients take no memory between updates"),
    ignored("offload_ema", "the average is kept on the device"),
    ignored("foreach_ema", "the average is one program"),
    ignored("tracker_project_name", "it belongs to Weights & Biases"),
    only_default("train_text_encoder", {"false", "0", "no"}, "the text encoder stays as it is"),
    only_default("tokenizer_max_length", {"", "none", "null"}, "texts are as long as the text encoder reads them"),
    only_default("use_8bit_adam", {"false", "0", "no"}, "the optimizer's state is float32"),
    only_default("class_labels_conditioning", {"", "none", "null"}, "it is for DeepFloyd's networks"),
    only_default("text_encoder_use_attention_mask", {"false", "0", "no"}, "it is for T5 in DeepFloyd's networks"),
    only_default("variant", {"", "none", "null"}, "give the folder of the weights"),
    only_default("preserve_input_precision", {"false", "0", "no"}, "pictures have 8 bits"),
    unavailable("validation_prompt", kNoPictures),
    unavailable("validation_prompts", kNoPictures),
    unavailable("validation_epochs", kNoPictures),
    unavailable("num_validation_images", kNoPictures),
    unavailable("ddpm_num_inference_steps", kNoPictures),
    unavailable("save_images_epochs", kNoPictures),
};

}  // namespace

ArgumentTable diffusion_arguments() { return kDiffusionArguments; }

}  // namespace transom
