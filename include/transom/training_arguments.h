// SPDX-License-Identifier: Apache-2.0
// The arguments of a training run: names, defaults and meaning of Transformers 5 `TrainingArguments`, and of the data
// and model arguments of its example scripts. `transom train --help` lists them; docs of each field are there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A JSON object as text; empty means none was given.
struct JsonText {
  std::string text;
  bool operator==(const JsonText&) const = default;
};

// The arguments that plugins of devices contribute (docs/device-plugins.md, section 8), by name. What is not there, or
// empty, was not given.
struct DeviceArguments {
  std::map<std::string, std::optional<bool>> flags;
  std::map<std::string, std::optional<std::string>> texts;
};

struct TrainingArguments {
  // Duration and batch size
  std::string output_dir = "trainer_output";
  int64_t per_device_train_batch_size = 8;
  double num_train_epochs = 3;
  int64_t max_steps = -1;

  // Learning rate
  double learning_rate = 5e-5;
  std::string lr_scheduler_type = "linear";
  JsonText lr_scheduler_kwargs;
  double warmup_steps = 0;  // below 1: a ratio of all steps
  std::optional<double> warmup_ratio;

  // Optimizer
  std::string optim = "adamw_torch_fused";
  std::optional<std::string> optim_args;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;

  // Regularisation and stability
  int64_t gradient_accumulation_steps = 1;
  bool average_tokens_across_devices = true;
  double max_grad_norm = 1;
  double label_smoothing_factor = 0;
  std::optional<double> neftune_noise_alpha;

  // Distillation, by the names of Optimum Intel
  double distillation_temperature = 2;
  double distillation_weight = 0.5;

  // Precision
  bool bf16 = false;
  bool fp16 = false;
  bool bf16_full_eval = false;
  bool fp16_full_eval = false;
  std::optional<bool> tf32;

  // Memory and speed
  bool activation_checkpointing = false;
  JsonText activation_checkpointing_kwargs;
  bool torch_compile = false;
  int64_t max_predictions_per_seq = 0;  // masked tokens of a sequence, which alone the head sees; 0: all positions

  // Logging
  std::string logging_strategy = "steps";
  double logging_steps = 500;
  bool logging_first_step = false;
  bool logging_nan_inf_filter = true;
  std::optional<std::string> logging_dir;
  std::string include_num_input_tokens_seen = "no";
  std::string log_level = "passive";
  std::optional<bool> disable_tqdm;
  std::vector<std::string> report_to;
  std::optional<std::string> run_name;
  bool skip_memory_metrics = true;

  // Evaluation
  std::string eval_strategy = "no";
  std::optional<double> eval_steps;
  double eval_delay = 0;
  int64_t per_device_eval_batch_size = 8;
  bool prediction_loss_only = false;
  bool eval_on_start = false;
  std::optional<int64_t> eval_accumulation_steps;

  // Checkpoints
  bool save_only_model = false;
  std::string save_strategy = "steps";
  double save_steps = 500;
  std::optional<int64_t> save_total_limit;
  bool load_best_model_at_end = false;
  std::optional<std::string> metric_for_best_model;
  std::optional<bool> greater_is_better;
  std::optional<std::string> resume_from_checkpoint;
  bool ignore_data_skip = false;

  // Random numbers
  int64_t seed = 42;
  std::optional<int64_t> data_seed;
  bool full_determinism = false;

  // Data
  bool dataloader_drop_last = false;
  bool remove_unused_columns = true;
  std::optional<std::vector<std::string>> label_names;
  std::string train_sampling_strategy = "random";
  std::string length_column_name = "length";
  std::optional<bool> padding_free;  // layers see the tokens of a batch without their padding

  // What to do
  bool do_train = false;
  bool do_eval = false;
  bool do_predict = false;
  bool use_cpu = false;

  // Several devices
  std::optional<std::string> ddp_backend;
  std::optional<double> ddp_bucket_cap_mb;
  double ddp_timeout = 1800;
  int64_t zero_stage = 0;
  std::string fsdp;
  JsonText fsdp_config;
  std::string offload_optimizer_device = "none";
  int64_t tp_size = 1, pp_size = 1, cp_size = 1, ep_size = 1;
  std::string pipeline_schedule = "1f1b";
  int64_t pp_chunks = 1;
  std::string cp_strategy = "ulysses";
  bool sequence_parallel = false;
  int64_t parameter_check_steps = 0;

  // How it is carried out and measured
  std::optional<std::string> inference_mode;
  int64_t throughput_warmup_steps = 0;
  bool adjust_throughput = false;
  DeviceArguments device_arguments;

  // `data_seed`, or `seed` where it is not given.
  int64_t sampling_seed() const { return data_seed.value_or(seed); }
  // The number of warm-up steps of a run of `max_steps` updates.
  int64_t warmup_steps_of(int64_t total_steps) const;
  // Fills what follows from other fields (eval_steps from logging_steps, greater_is_better from the metric's name ...)
  // and refuses combinations that contradict each other. Parsing does this; call it after setting fields by hand.
  void resolve();
  // All fields as training_args.json holds them; parses back to the same.
  std::string to_json() const;
};

// The data and model arguments of the example scripts (run_classification, run_glue, run_ner, run_qa, run_mlm,
// run_clm).
struct ScriptArguments {
  // Model
  std::string model_name_or_path;
  std::optional<std::string> config_name;
  std::optional<std::string> tokenizer_name;
  std::optional<std::string> cache_dir;
  std::string model_revision = "main";
  std::optional<std::string> token;
  bool ignore_mismatched_sizes = false;
  std::optional<std::string> config_overrides;
  std::string dtype = "float32";
  bool load_in_4bit = false, load_in_8bit = false;
  std::string bnb_4bit_quant_type = "nf4";
  std::optional<std::string> teacher_model;

  // Task and device
  std::optional<std::string> task;
  std::optional<std::string> device;
  std::optional<std::string> mode;
  std::string quantization = "none";  // of evaluations and predictions
  std::optional<std::string> overfit_batch;
  bool json = false;
  std::optional<std::string> profile;
  bool dashboard = false;
  std::optional<int64_t> dashboard_port;
  std::string dashboard_host = "127.0.0.1";
  std::vector<std::string> dashboard_runs;

  // Files
  std::optional<std::string> train_file;
  std::optional<std::string> validation_file;
  std::optional<std::string> test_file;
  std::optional<std::string> train_dir;
  std::optional<std::string> validation_dir;
  double train_val_split = 0.15;
  std::optional<std::string> dataset_name;
  std::vector<std::string> column_names;
  std::optional<std::string> delimiter;
  std::optional<std::string> file_format;
  int64_t validation_split_percentage = 5;
  std::optional<int64_t> max_train_samples;
  std::optional<int64_t> max_eval_samples;
  std::optional<int64_t> max_predict_samples;
  bool overwrite_output_dir = false;

  // Columns
  std::optional<std::string> task_name;
  std::optional<std::string> text_column_name;
  std::optional<std::string> text_column_names;
  std::string text_column_delimiter = " ";
  std::optional<std::string> label_column_name;
  std::optional<bool> do_regression;
  bool shuffle_train_dataset = false;
  int64_t shuffle_seed = 42;
  std::optional<std::string> metric_name;

  // Tokens
  std::optional<int64_t> max_seq_length;
  std::optional<bool> pad_to_max_length;  // by default only for question answering
  std::optional<int64_t> pad_to_multiple_of;
  std::optional<int64_t> length_buckets;
  std::optional<int64_t> block_size;

  // Chats
  std::optional<std::string> chat_template_path;
  std::optional<std::string> eos_token;
  bool assistant_only_loss = false;
  std::optional<bool> completion_only_loss;
  std::string truncation_mode = "keep_start";
  bool packing = false;
  std::string packing_strategy = "bfd";
  std::optional<bool> eval_packing;    // as packing
  std::vector<std::string> loss_type;  // of sft, dpo, kto, cpo, grpo; empty: the task's

  // Preferences and rewards
  std::vector<double> loss_weights;  // one for each of them; empty: 1
  double beta = 0.1;
  double label_smoothing = 0;
  std::optional<double> ld_alpha;
  std::string f_divergence_type = "reverse_kl";
  double f_alpha_divergence_coef = 0.5;
  bool use_weighting = false;
  double discopop_tau = 0.05;
  double desirable_weight = 1, undesirable_weight = 1;
  double cpo_alpha = 1;
  double simpo_gamma = 0.5;
  std::optional<double> alpha;  // of AlphaPO
  std::optional<double> center_rewards_coefficient;
  bool disable_dropout = true;
  bool precompute_ref_log_probs = false;
  std::optional<int64_t> precompute_ref_batch_size;
  bool sync_ref_model = false;
  double ref_model_mixup_alpha = 0.6;
  int64_t ref_model_sync_steps = 512;

  // Policies: --task grpo and rloo
  std::vector<std::string> reward_funcs;  // as docs/guide/policy-training.md lists them
  std::optional<std::string> reward_model_name_or_path;
  std::vector<double> reward_weights;  // one for each of them; empty: 1
  std::optional<int64_t> num_generations, num_generations_eval;
  int64_t max_completion_length = 512;
  std::optional<int64_t> generation_batch_size, steps_per_generation;
  int64_t num_iterations = 1;
  std::optional<double> temperature;  // 1
  double top_p = 1;
  int64_t top_k = 0;
  std::optional<double> min_p;
  double repetition_penalty = 1;
  JsonText generation_kwargs, chat_template_kwargs;
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;
  std::string importance_sampling_level = "token";
  std::string scale_rewards = "group";
  std::string multi_objective_aggregation = "sum_then_normalize";
  bool mask_truncated_completions = false;
  bool use_bias_correction_kl = true;
  std::optional<double> off_policy_mask_threshold;
  std::string rollout_quantization = "none";
  // What TRL corrects between its engine and its step, by its names: here where rollouts have other weights, or
  // use_vllm asks for it.
  bool use_vllm = false, vllm_importance_sampling_correction = true;
  std::string vllm_importance_sampling_mode = "sequence_mask";
  std::optional<double> vllm_importance_sampling_clip_min, vllm_importance_sampling_clip_max = 3;
  double entropy_coef = 0;
  double sapo_temperature_neg = 1.05, sapo_temperature_pos = 1;
  double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;
  bool normalize_advantages = false;
  std::vector<double> reward_clip_range;  // empty, or two numbers
  bool log_completions = false, log_unique_prompts = false;
  std::optional<int64_t> num_completions_to_print;
  std::optional<std::string> completions_file;

  // Sentences
  std::optional<std::string> loss;  // its name; or an object with one for each set of train_file
  JsonText loss_kwargs;
  std::vector<std::string> matryoshka_dims, matryoshka_weights;
  std::optional<std::string> pooling_mode;
  std::optional<std::string> prompts;  // a text; or an object of texts by columns, or by sets and columns
  std::string batch_sampler = "batch_sampler";
  std::string multi_dataset_batch_sampler = "proportional";
  std::string evaluator = "auto";

  // Token classification
  bool label_all_tokens = false;
  bool return_entity_level_metrics = false;

  // Question answering
  bool version_2_with_negative = false;
  double null_score_diff_threshold = 0;
  int64_t doc_stride = 128;
  int64_t n_best_size = 20;
  int64_t max_answer_length = 30;

  // Language modelling
  double mlm_probability = 0.15;
  bool line_by_line = false;
  bool keep_linebreaks = true;
  bool whole_word_mask = false;

  // Images and sounds
  std::optional<std::string> image_processor_name;
  std::optional<std::string> feature_extractor_name;
  std::string image_column_name = "image";
  double random_crop_area = 0.08;
  bool random_flip = true;
  int64_t image_height = 512, image_width = 512;  // of instance segmentation
  bool do_reduce_labels = false;
  double mask_ratio = 0.75;      // of pictures without labels; 0.6 for models that are told what is hidden
  int64_t mask_patch_size = 32;  // of such models: pixels on the edge of what is hidden together
  // Of masked autoencoders.
  bool norm_pix_loss = true;
  std::optional<double> base_learning_rate;
  std::string audio_column_name = "audio";
  double max_length_seconds = 20;
  bool attention_mask = true;
  bool freeze_feature_encoder = true;
  std::optional<int64_t> num_samples_to_print;  // by an evaluation that writes texts; 3 where it writes them anyway

  // Speech recognition; the first five are those of models that write, as Whisper
  bool freeze_encoder = false;
  bool apply_spec_augment = false;
  bool do_lower_case = true;
  std::optional<std::string> language;
  std::string speech_task = "transcribe";
  std::vector<std::string> chars_to_ignore;
  std::vector<std::string> eval_metrics = {"wer"};
  double max_duration_in_seconds = 20;
  double min_duration_in_seconds = 0;
  std::string unk_token = "[UNK]";
  std::string pad_token = "[PAD]";
  std::string word_delimiter_token = "|";
  // These are put into the configuration.
  double attention_dropout = 0, activation_dropout = 0, feat_proj_dropout = 0, hidden_dropout = 0, final_dropout = 0;
  double mask_time_prob = 0.05, mask_feature_prob = 0, layerdrop = 0;
  int64_t mask_time_length = 10, mask_feature_length = 10;
  std::string ctc_loss_reduction = "mean";
  bool ctc_zero_infinity = false;
  bool add_adapter = false;

  // Images and captions
  std::optional<std::string> image_column;
  std::optional<std::string> caption_column;
  bool freeze_vision_model = false;
  bool freeze_text_model = false;

  // Diffusion, by the names of the scripts of Diffusers
  std::optional<int64_t> resolution;  // of the square that is cut out of pictures; the network's own
  bool center_crop = false;
  std::string image_interpolation_mode = "lanczos";
  std::optional<std::string> prediction_type;  // the schedule's
  std::optional<double> snr_gamma;
  double noise_offset = 0;
  double input_perturbation = 0;
  bool dream_training = false;
  double dream_detail_preservation = 1;
  double proportion_empty_prompts = 0;
  bool scale_lr = false;
  bool use_ema = false;
  double ema_inv_gamma = 1, ema_power = 0.75, ema_max_decay = 0.9999;
  int64_t ddpm_num_steps = 1000;
  std::string ddpm_beta_schedule = "linear";
  std::optional<std::string> pretrained_vae_model_name_or_path;
  std::string timestep_bias_strategy = "none";
  double timestep_bias_multiplier = 1, timestep_bias_portion = 0.25;
  int64_t timestep_bias_begin = 0, timestep_bias_end = 1000;
  // DreamBooth
  std::optional<std::string> instance_prompt;
  std::optional<std::string> class_prompt;
  std::optional<std::string> class_data_dir;
  bool with_prior_preservation = false;
  double prior_loss_weight = 1;
  int64_t num_class_images = 100;
  // ControlNet
  std::optional<std::string> controlnet_model_name_or_path;
  std::string conditioning_image_column = "conditioning_image";
  // Flows: Stable Diffusion 3 and FLUX
  std::optional<std::string> weighting_scheme;  // logit_normal of Stable Diffusion 3, none of FLUX
  double logit_mean = 0, logit_std = 1, mode_scale = 1.29;
  bool precondition_outputs = true;
  double guidance_scale = 3.5;
  std::optional<int64_t> max_sequence_length;  // of T5: 77 of Stable Diffusion 3, 512 of FLUX
  std::vector<std::string> lora_blocks;        // numbers of blocks
  // Textual inversion
  std::optional<std::string> placeholder_token;
  std::optional<std::string> initializer_token;
  int64_t num_vectors = 1;
  std::string learnable_property = "object";
  std::optional<int64_t> repeats;  // 100; of DreamBooth 1
  bool save_as_full_pipeline = false;

  // Clicks
  int64_t max_ind_range = -1;

  // Sequence to sequence
  std::optional<std::string> source_lang;
  std::optional<std::string> target_lang;
  std::optional<std::string> source_prefix;
  std::optional<std::string> text_column;
  std::optional<std::string> summary_column;
  std::optional<std::string> question_column, context_column, answer_column;  // question, context, answers
  int64_t max_source_length = 1024;
  int64_t max_target_length = 128;
  std::optional<int64_t> val_max_target_length;
  bool ignore_pad_token_for_loss = true;
  bool predict_with_generate = false;
  std::optional<int64_t> generation_max_length;
  std::optional<int64_t> generation_num_beams;
  std::optional<int64_t> num_beams;
  bool span_corruption = false;
  double mean_noise_span_length = 3;

  // Adapters
  bool use_peft = false;
  std::string peft_type = "LORA";
  JsonText peft_config;  // fields of adapter_config.json
  std::optional<int64_t> num_virtual_tokens;
  std::optional<std::string> prompt_tuning_init;
  std::optional<std::string> prompt_tuning_init_text;
  std::optional<int64_t> encoder_hidden_size;
  std::optional<std::string> encoder_reparameterization_type;
  bool prefix_projection = false;
  std::vector<std::string> feedforward_modules;
  std::vector<std::string> exclude_modules;
  std::optional<std::string> init_lora_weights;
  std::optional<int64_t> init_r;
  std::optional<int64_t> target_r;
  std::optional<int64_t> tinit;
  std::optional<int64_t> tfinal;
  int64_t lora_r = 16;
  double lora_alpha = 32;
  double lora_dropout = 0.05;
  std::vector<std::string> lora_target_modules;
  std::vector<std::string> lora_modules_to_save;
  std::optional<std::string> lora_task_type;
  std::string lora_bias = "none";
  JsonText lora_rank_pattern;
  JsonText lora_alpha_pattern;
  bool use_rslora = false;
  bool use_dora = false;

  // Early stopping
  std::optional<int64_t> early_stopping_patience;
  double early_stopping_threshold = 0;
};

// All of `transom train`.
struct TrainArguments {
  TrainingArguments training;
  ScriptArguments script;
  // The names of what was given; nothing where the record was not parsed. Tasks whose defaults are others than those of
  // TrainingArguments (sft) set what was not given; of a record that was not parsed, what has its usual default.
  std::optional<std::vector<std::string>> given;
  std::vector<std::string> notes;  // sentences for the user: what was accepted and means nothing here
  bool help = false;
  std::string device_but;  // the device that is not to be used, where none is named
};

// Parses flags as HfArgumentParser does: `--name value`, `--name=value`, `--flag`, `--flag false`, `--no_flag`, dashes
// for underscores, several words for a list. `--config file.json` (or a first argument that ends in .json) gives values
// that flags override. Errors are of kind kUsage and name the flag, what it takes, and the nearest known name.
TrainArguments parse_train_arguments(const std::vector<std::string>& flags);
// The same from a JSON object; `where` names it in errors.
TrainArguments parse_train_json(std::string_view json, std::string_view where);
// What --help of train and of evaluate prints.
std::string train_help();
std::string evaluate_help();

}  // namespace transom
