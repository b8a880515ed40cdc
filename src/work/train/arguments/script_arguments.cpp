// SPDX-License-Identifier: Apache-2.0
// The data and model arguments, and the parsing of both tables.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "work/train/arguments/argument_tables.h"
#include "work/train/arguments/device_arguments.h"
#include "work/train/arguments/diffusion_arguments.h"
#include "work/train/arguments/foreign_configs.h"
#include "work/train/arguments/former_arguments.h"
#include "work/train/arguments/policy_arguments.h"
#include "work/train/arguments/speech_arguments.h"

namespace transom {
namespace {

using S = ScriptArguments;

constexpr std::string_view kNoCode = "code of a checkpoint is never run";
constexpr std::string_view kNoCache = "rows are tokenised when they are needed and nothing is cached";

const Argument kScriptArguments[] = {
    section("Model"),
    field<&S::model_name_or_path>("model_name_or_path", "Checkpoint directory, or its id on the Hugging Face Hub."),
    alias("model", "model_name_or_path"),
    alias("tokenizer_name_or_path", "tokenizer_name"),
    field<&S::config_name>("config_name", "Configuration, where it is not the checkpoint's."),
    field<&S::tokenizer_name>("tokenizer_name", "Tokenizer, where it is not the checkpoint's."),
    field<&S::cache_dir>("cache_dir", "Directory of downloaded checkpoints."),
    field<&S::model_revision>("model_revision", "Branch, tag or commit of the checkpoint."),
    field<&S::token>("token", "Token for private checkpoints."),
    field<&S::ignore_mismatched_sizes>("ignore_mismatched_sizes", "Re-initialise a head whose shape does not match."),
    field<&S::config_overrides>("config_overrides",
                                "Changes to the configuration of a new model, as name=value,name=value."),
    field<&S::dtype>("dtype", "Type of the weights where nothing is trained; training keeps float32.")
        .one_of({"float32", "bfloat16", "float16", "auto", "fp32", "bf16", "fp16"}),
    alias("torch_dtype", "dtype"),
    field<&S::teacher_model>("teacher_model", "Model whose logits the trained one learns besides its labels."),
    alias("teacher_model_name_or_path", "teacher_model"),
    alias("teacher_name_or_path", "teacher_model"),
    only_default("trust_remote_code", {"false", "0", "no"}, kNoCode),
    ignored("use_fast_tokenizer", "there is one implementation of each tokenizer"),
    ignored("model_type", "the configuration names it"),
    ignored("low_cpu_mem_usage", "weights are mapped from the file"),

    field<&S::load_in_4bit>("load_in_4bit", "With use_peft: store linear layers in 4 bits (QLoRA)."),
    field<&S::load_in_8bit>("load_in_8bit", "With use_peft: hold linear layers as codes of 8 bits, a scale a row."),
    field<&S::bnb_4bit_quant_type>("bnb_4bit_quant_type", "What the codes of load_in_4bit stand for.")
        .one_of({"nf4", "fp4"}),
    ignored("bnb_4bit_use_double_quant", "scales of codes stay as they are"),
    ignored("use_bnb_nested_quant", "scales of codes stay as they are"),
    ignored("bnb_4bit_compute_dtype", "--bf16 says in which type products are computed"),

    section("Task and device"),
    field<&S::task>("task", "The task, by its pipeline's name (text-classification, token-classification, ...)."),
    field<&S::device>("device", "Device to train on (default: the best that is found)."),
    field<&S::mode>("mode", "How the graph is run (default: lazy).").one_of({"lazy", "eager", "compile", "graph"}),
    field<&S::quantization>("quantization", "int8: linear layers in 8-bit integers (evaluate only).")
        .one_of({"none", "int8"}),
    field<&S::overfit_batch>("overfit_batch",
                             "Train on this one batch (safetensors) again and again, in place of the files."),
    field<&S::json>("json", "Print one line of JSON per update."),
    field<&S::profile>("profile",
                       "Write a trace of all kernels here (Perfetto opens it), and print what took longest."),
    field<&S::dashboard>("dashboard",
                         "Draw curves, rates, memory and the time left on the terminal; plain lines in a pipe."),
    field<&S::dashboard_port>("dashboard_port",
                              "Serve a page with the curves as they grow, and buttons that pause, save and stop, on "
                              "this port (0: any that is free).")
        .at_least(0)
        .at_most(65535),
    field<&S::dashboard_host>("dashboard_host",
                              "Address that the page is served on; beyond this machine it asks for a key."),
    field<&S::dashboard_runs>("dashboard_runs",
                              "Output directories of other runs that the page can show beside this one (default: those "
                              "beside output_dir)."),

    section("Files"),
    field<&S::train_file>("train_file",
                          "File to train on: .csv, .tsv, .json, .jsonl, .conll or .txt. Of sentences also several, as "
                          "an object of JSON with the name of each.")
        .or_object(),
    field<&S::validation_file>("validation_file", "File to evaluate on.").or_object(),
    alias("eval_file", "validation_file"),
    field<&S::test_file>("test_file", "File to predict."),
    field<&S::train_dir>("train_dir", "Images or sounds to train on: one folder per class."),
    field<&S::validation_dir>("validation_dir", "Images or sounds to evaluate on: one folder per class."),
    field<&S::train_val_split>("train_val_split",
                               "Fraction of train_dir to evaluate on where validation_dir is missing.")
        .at_least(0),
    field<&S::dataset_name>("dataset_name", "Directory with train, validation and test files."),
    field<&S::column_names>("column_names", "Names of the columns of a CSV or TSV file that has no header."),
    field<&S::delimiter>("delimiter", "Character between fields, \\t a tab (default: a comma, or a tab in .tsv)."),
    field<&S::file_format>("file_format", "Format of the files, whatever their names end in.")
        .one_of({"csv", "tsv", "json", "conll", "text"}),
    field<&S::validation_split_percentage>("validation_split_percentage",
                                           "Percentage of rows to evaluate on where there is no validation file.")
        .at_least(0)
        .at_most(100),
    field<&S::max_train_samples>("max_train_samples", "Train on the first N rows only.").at_least(1),
    field<&S::max_eval_samples>("max_eval_samples", "Evaluate the first N rows only.").at_least(1),
    field<&S::max_predict_samples>("max_predict_samples", "Predict the first N rows only.").at_least(1),
    field<&S::overwrite_output_dir>("overwrite_output_dir", "Remove the checkpoints of an earlier run in output_dir."),
    only_default("model_init_kwargs", {"", "null", "none", "{}"}, "give its entries as arguments, such as --dtype"),
    only_default("dataset_kwargs", {"", "null", "none", "{}"}, "rows are prepared by the arguments beside it"),
    only_default("dataset_config_name", {"", "null"}, "it names a part of a data set on the Hub; give files"),
    only_default("dataset_config", {"", "null", "none"}, "it names a part of a data set on the Hub; give files"),
    only_default("dataset_train_split", {"train"}, "it names a part of a data set on the Hub; give --train_file"),
    only_default("dataset_test_split", {"test"}, "it names a part of a data set on the Hub; give --validation_file"),
    only_default("dataset_streaming", {"false", "0", "no"}, "rows are read from files"),
    ignored("attn_implementation", "attention is computed by the device's own kernels"),
    ignored("ignore_bias_buffers", "no wrapper of the model sends buffers"),
    only_default("eval_split_name", {"test"}, "it names a part of a data set on the Hub; give --validation_file"),
    only_default("train_split_name", {"train"}, "it names a part of a data set on the Hub; give files"),
    only_default("streaming", {"false", "0", "no"}, "files larger than memory are read as they are needed anyway"),
    only_default("preprocessing_only", {"false", "0", "no"}, kNoCache),
    only_default("forced_decoder_ids", {"", "null", "none", "[]"}, "see --language and --speech_task"),
    only_default("suppress_tokens", {"", "null", "none", "[]"}, "they stand in the model's generation_config.json"),
    only_default("generation_config", {"", "null", "none"}, "it is read from the folder of the model"),
    ignored("overwrite_cache", kNoCache),
    ignored("preprocessing_num_workers", kNoCache),

    section("Columns"),
    field<&S::task_name>("task_name", "A GLUE task: it names the columns and the metrics.")
        .one_of({"cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli", "ner", "pos", "chunk"}),
    field<&S::text_column_name>("text_column_name", "Column of the text or of the tokens."),
    field<&S::text_column_names>("text_column_names", "Columns of text, joined, as a list with commas."),
    field<&S::text_column_delimiter>("text_column_delimiter", "Text between the joined columns."),
    field<&S::label_column_name>("label_column_name", "Column of the labels."),
    field<&S::do_regression>("do_regression", "Regression (default: when labels are fractions)."),
    field<&S::shuffle_train_dataset>("shuffle_train_dataset", "Shuffle rows before max_train_samples are taken."),
    field<&S::shuffle_seed>("shuffle_seed", "Seed of that shuffle.").at_least(0),
    field<&S::metric_name>("metric_name", "Metric to evaluate with (default: the task's)."),

    section("Tokens"),
    field<&S::max_seq_length>("max_seq_length", "Longest row in tokens; longer ones are cut.").at_least(1),
    alias("max_length", "max_seq_length"),
    field<&S::pad_to_max_length>(
        "pad_to_max_length",
        "Pad to max_seq_length rather than to the longest of a batch (default: for question answering)."),
    field<&S::pad_to_multiple_of>("pad_to_multiple_of", "Pad to a multiple of this.").at_least(1),
    field<&S::length_buckets>("length_buckets",
                              "Pad to one of at most so many lengths; 0 for the longest of a batch (default: 16 on "
                              "devices that compile for each shape, else 0).")
        .at_least(0)
        .at_most(1024),
    field<&S::block_size>("block_size",
                          "Length of the blocks that text is split into, in tokens (causal language models).")
        .at_least(1),

    section("Chats"),
    alias("dataset_text_field", "text_column_name"),
    field<&S::chat_template_path>("chat_template_path",
                                  "Chat template to train with, in place of the tokenizer's: a file of Jinja, or a "
                                  "directory with a tokenizer. It is saved with the model."),
    field<&S::eos_token>("eos_token", "Token that ends a text or a completion (default: the tokenizer's)."),
    field<&S::assistant_only_loss>("assistant_only_loss", "Learn only what the assistant writes in a chat."),
    field<&S::completion_only_loss>("completion_only_loss",
                                    "Learn only completions, not their prompts (default: where rows have prompts)."),
    field<&S::truncation_mode>("truncation_mode", "Which part of a row that is longer than max_length is kept.")
        .one_of({"keep_start", "keep_end"}),
    alias("shuffle_dataset", "shuffle_train_dataset"),
    field<&S::packing>("packing",
                       "Put several samples into each row of max_length tokens; each is learnt as if it stood alone."),
    field<&S::packing_strategy>(
        "packing_strategy",
        "Which samples share a row: best fit (bfd), with longer samples in parts (bfd_split), or "
        "one behind the other, where they see each other (wrapped).")
        .one_of({"bfd", "bfd_split", "wrapped"}),
    field<&S::eval_packing>("eval_packing", "Pack the rows of evaluations too (default: as packing)."),
    only_default("activation_offloading", {"false", "0", "no"}, "activations stay on the device"),
    ignored("dataset_num_proc", "rows are tokenised by all threads"),

    section("Sentences"),
    field<&S::loss>("loss",
                    "Loss of sentence-embedding or text-ranking, by its name in sentence-transformers; of several sets "
                    "of rows also an object with the loss of each.")
        .or_object(),
    field<&S::loss_kwargs>("loss_kwargs", "Its options, as an object: {\"scale\": 20}."),
    field<&S::matryoshka_dims>("matryoshka_dims", "Learn vectors whose first so many numbers are good vectors too."),
    field<&S::matryoshka_weights>("matryoshka_weights", "What each of these counts for (default: 1)."),
    field<&S::pooling_mode>("pooling_mode",
                            "How the states of tokens become a vector (default: as the model's modules.json says, else "
                            "the mean, or of a causal language model the last token).")
        .one_of({"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"}),
    field<&S::prompts>(
        "prompts",
        "What texts begin with: one text, or an object with one for each column, or for each set of rows "
        "and column.")
        .or_object(),
    field<&S::batch_sampler>("batch_sampler",
                             "How rows of sentences become batches: at random, without equal texts in a batch, or with "
                             "several rows of each label.")
        .one_of({"batch_sampler", "no_duplicates", "no_duplicates_hashed", "group_by_label"}),
    field<&S::multi_dataset_batch_sampler>("multi_dataset_batch_sampler",
                                           "Whose turn it is among several sets of rows: by their sizes, or one after "
                                           "the other until one of them ends.")
        .one_of({"proportional", "round_robin"}),
    field<&S::evaluator>("evaluator", "What evaluations of sentences measure (default: what the columns allow).")
        .one_of({"auto", "none", "EmbeddingSimilarityEvaluator", "TripletEvaluator", "InformationRetrievalEvaluator"}),

    section("Preferences and rewards"),
    field<&S::loss_type>("loss_type",
                         "Loss of sft (nll, dft), dpo (one or several), kto, cpo or grpo, by TRL's names (default: "
                         "nll; sigmoid; kto; dapo)."),
    field<&S::loss_weights>("loss_weights", "Weight of each loss_type (default: 1)."),
    field<&S::beta>("beta",
                    "How much a policy is held to the reference (default: 0.1; grpo: 0; rloo: 0.05); of ipo the "
                    "regularisation; of orpo lambda."),
    field<&S::label_smoothing>("label_smoothing",
                               "How often a preference is taken to be wrong (robust, exo_pair, cpo).")
        .at_least(0)
        .at_most(1),
    field<&S::ld_alpha>("ld_alpha", "Weight of tokens beyond the shorter answer's length (LD-DPO).")
        .at_least(0)
        .at_most(1),
    field<&S::f_divergence_type>("f_divergence_type", "Divergence between policy and reference (f-DPO).")
        .one_of({"reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"}),
    field<&S::f_alpha_divergence_coef>("f_alpha_divergence_coef", "Alpha of alpha_divergence."),
    field<&S::use_weighting>("use_weighting", "Weigh pairs by how likely the policy finds them (WPO)."),
    field<&S::discopop_tau>("discopop_tau", "Temperature of discopop.").above(0),
    field<&S::desirable_weight>("desirable_weight", "Weight of desirable answers (kto).").at_least(0),
    field<&S::undesirable_weight>("undesirable_weight", "Weight of undesirable answers (kto).").at_least(0),
    field<&S::cpo_alpha>("cpo_alpha", "Weight of the negative log-likelihood of chosen answers (cpo)."),
    field<&S::simpo_gamma>("simpo_gamma", "Margin between the rewards of simpo."),
    field<&S::alpha>("alpha", "Shape of AlphaPO's reward (cpo); of other tasks another name of distillation_weight."),
    field<&S::center_rewards_coefficient>("center_rewards_coefficient",
                                          "Weight of a term that keeps rewards around zero (reward)."),
    field<&S::disable_dropout>("disable_dropout",
                               "Train preferences and rewards (and policies, where it is given) without dropout."),
    field<&S::precompute_ref_log_probs>("precompute_ref_log_probs",
                                        "Compute what the reference says of all rows before the first update."),
    field<&S::precompute_ref_batch_size>("precompute_ref_batch_size",
                                         "Rows that are computed at once then (default: those of a batch).")
        .at_least(1),
    field<&S::sync_ref_model>("sync_ref_model", "Move the reference towards the policy during training (TR-DPO)."),
    field<&S::ref_model_mixup_alpha>("ref_model_mixup_alpha", "Part of the policy in the reference then.")
        .at_least(0)
        .at_most(1),
    field<&S::ref_model_sync_steps>("ref_model_sync_steps", "Updates between two such moves.").at_least(1),
    only_default("router_aux_loss_coef", {"0", "0.0"}, "balance between experts is no term of losses of preferences"),
    only_default("generate_during_eval", {"false", "0", "no"}, "evaluations of preferences generate nothing"),
    only_default("is_encoder_decoder", {"false", "0", "no"}, "preferences are trained on decoders"),
    ignored("padding_value", "padding counts for nothing"),

    section("Token classification"),
    field<&S::label_all_tokens>("label_all_tokens", "Label every token of a word, not only the first."),
    field<&S::return_entity_level_metrics>("return_entity_level_metrics", "Report each kind of entity."),

    section("Question answering"),
    field<&S::version_2_with_negative>("version_2_with_negative", "Some questions have no answer."),
    field<&S::null_score_diff_threshold>("null_score_diff_threshold",
                                         "Margin by which no answer must be better to be given."),
    field<&S::doc_stride>("doc_stride", "Overlap of the windows over a long context.").at_least(0),
    field<&S::n_best_size>("n_best_size", "Candidates of an answer.").at_least(1),
    field<&S::max_answer_length>("max_answer_length", "Longest answer in tokens.").at_least(1),
    alias("val_max_answer_length", "val_max_target_length"),
    field<&S::question_column>("question_column", "Column of the questions, where it is not question."),
    field<&S::context_column>("context_column", "Column of the contexts, where it is not context."),
    field<&S::answer_column>("answer_column",
                             "Column of the answers (text and answer_start), where it is not answers."),

    section("Language modelling"),
    field<&S::mlm_probability>("mlm_probability", "Ratio of tokens to mask.").above(0).at_most(1),
    field<&S::line_by_line>("line_by_line", "Every line is a row of its own."),
    field<&S::keep_linebreaks>("keep_linebreaks", "Lines of a text file keep their ends (causal language models)."),
    field<&S::whole_word_mask>("whole_word_mask", "Mask all tokens of a word."),

    section("Images and sounds"),
    field<&S::image_processor_name>("image_processor_name", "Image processor, where it is not the checkpoint's."),
    field<&S::feature_extractor_name>("feature_extractor_name", "Feature extractor, where it is not the checkpoint's."),
    field<&S::image_column_name>("image_column_name", "Column of the image files (image classification)."),
    field<&S::random_crop_area>("random_crop_area",
                                "Least part of a training image's area that is cut out at random; 1: all of it, but "
                                "for what makes its ratio 3:4 to 4:3 (image classification).")
        .above(0)
        .at_most(1),
    field<&S::random_flip>("random_flip", "Mirror half of the training images, and their boxes or masks."),
    field<&S::image_height>("image_height", "Height that pictures and masks get (instance segmentation).").at_least(1),
    field<&S::image_width>("image_width", "Width that pictures and masks get (instance segmentation).").at_least(1),
    field<&S::do_reduce_labels>("do_reduce_labels",
                                "Level 0 of maps is no class, and class c is level c + 1 (instance segmentation)."),
    field<&S::mask_ratio>("mask_ratio", "Part of a picture that is hidden (pictures without labels).")
        .above(0)
        .at_most(1),
    field<&S::mask_patch_size>("mask_patch_size",
                               "Pixels on the edge of each hidden square, where the model is told what is hidden.")
        .at_least(1),
    field<&S::norm_pix_loss>("norm_pix_loss",
                             "Pixels to make up are about the mean of their patch, in its deviation (masked "
                             "autoencoders)."),
    field<&S::base_learning_rate>("base_learning_rate",
                                  "Learning rate for 256 rows an update, 1e-3 where no learning rate is given (masked "
                                  "autoencoders).")
        .above(0),
    field<&S::audio_column_name>("audio_column_name", "Column of the sound files."),
    field<&S::max_length_seconds>("max_length_seconds", "Longest part of a sound that is trained on (classification).")
        .above(0),
    field<&S::attention_mask>("attention_mask", "Tell the model which samples are padding (audio classification)."),
    field<&S::freeze_feature_encoder>("freeze_feature_encoder", "Do not train the convolutions of a speech model."),

    field<&S::num_samples_to_print>("num_samples_to_print",
                                    "Texts that an evaluation shows beside what was wanted (default: 3 where they are "
                                    "generated in any case, else 0).")
        .at_least(0),

    section("Images and captions"),
    field<&S::image_column>("image_column", "Column of the image files (default: image_path, else the first)."),
    field<&S::caption_column>("caption_column", "Column of the captions (default: caption, else the second)."),
    field<&S::freeze_vision_model>("freeze_vision_model", "Do not train the vision encoder."),
    field<&S::freeze_text_model>("freeze_text_model", "Do not train the text encoder."),

    section("Clicks"),
    field<&S::max_ind_range>("max_ind_range", "Take categories modulo this; -1: modulo their table's rows.")
        .at_least(-1),

    section("Sequence to sequence"),
    field<&S::source_lang>("source_lang", "Language to translate from: its key in `translation`."),
    field<&S::target_lang>("target_lang", "Language to translate into."),
    field<&S::source_prefix>("source_prefix",
                             "Text put before every source text (T5: 'translate English to French: ')."),
    field<&S::text_column>("text_column", "Column of the source text (summarisation)."),
    field<&S::summary_column>("summary_column", "Column of the target text (summarisation)."),
    field<&S::max_source_length>("max_source_length", "Longest source in tokens; longer ones are cut.").at_least(1),
    field<&S::max_target_length>("max_target_length", "Longest target in tokens; longer ones are cut.").at_least(1),
    field<&S::val_max_target_length>("val_max_target_length", "The same in evaluation (default: max_target_length).")
        .at_least(1),
    field<&S::ignore_pad_token_for_loss>("ignore_pad_token_for_loss", "Ignore the padding of labels in the loss."),
    field<&S::predict_with_generate>("predict_with_generate", "Evaluate with generated texts (BLEU, ROUGE)."),
    field<&S::generation_max_length>("generation_max_length",
                                     "Longest generated text in tokens (default: val_max_target_length).")
        .at_least(1),
    field<&S::generation_num_beams>("generation_num_beams",
                                    "Number of beams of generated texts (default: the checkpoint's).")
        .at_least(1),
    field<&S::num_beams>("num_beams", "Number of beams; overrides generation_num_beams.").at_least(1),
    only_default("sortish_sampler", {"false", "0", "no"}, "see --train_sampling_strategy group_by_length"),
    field<&S::span_corruption>("span_corruption",
                               "Pre-train T5: predict masked spans of plain text (span corruption)."),
    field<&S::mean_noise_span_length>("mean_noise_span_length", "Mean length of those spans, in tokens.").at_least(1),

    section("Early stopping"),
    field<&S::early_stopping_patience>("early_stopping_patience", "Stop after N evaluations without improvement.")
        .at_least(1),
    field<&S::early_stopping_threshold>("early_stopping_threshold", "Minimum improvement.").at_least(0),
};

// A part of the data set in `folder`: a file such as train.csv, or a folder of one folder a class.
void find_part(const std::filesystem::path& folder, std::initializer_list<const char*> names,
               std::optional<std::string>& file, std::optional<std::string>* classes) {
  for (const char* name : names) {
    if (file || (classes && *classes)) return;
    for (const char* ending : {".csv", ".tsv", ".jsonl", ".json", ".conll", ".txt"})
      if (const auto path = folder / (std::string(name) + ending); !file && file_exists(path)) file = path.string();
    if (!file && classes && directory_exists(folder / name)) *classes = (folder / name).string();
  }
}

void find_data_set(ScriptArguments& script) {
  const std::filesystem::path folder(*script.dataset_name);
  find_part(folder, {"train", "training"}, script.train_file, &script.train_dir);
  find_part(folder, {"validation", "valid", "val", "dev", "eval"}, script.validation_file, &script.validation_dir);
  find_part(folder, {"test", "testing"}, script.test_file, nullptr);
  if (!script.train_file && !script.train_dir && !script.validation_file && !script.validation_dir && !script.test_file)
    fail(ErrorKind::kUsage, "dataset_name: {} holds no train, validation or test file (.csv, .tsv, .jsonl, .json, ...)",
         transom::quoted(*script.dataset_name));
}

void resolve(TrainArguments& arguments, const ForeignConfigs& foreign) {
  apply_foreign_configs(foreign, arguments.training, arguments.notes);
  resolve_device_arguments(arguments);
  if (std::optional<double>& alpha = arguments.script.alpha; alpha && arguments.script.task != "cpo") {
    if (*alpha < 0 || *alpha > 1)
      fail(ErrorKind::kUsage, "alpha: expected a number of at least 0 and of at most 1 (distillation_weight), found {}",
           *alpha);
    arguments.training.distillation_weight = *alpha;
    alpha.reset();
  }
  const std::optional<std::string>& task = arguments.script.task;
  if (std::optional<double>& heat = arguments.script.temperature;
      heat && task != "grpo" && task != "rloo" && task != "online-dpo") {
    arguments.training.distillation_temperature = *heat;
    heat.reset();
  }
  arguments.training.resolve();
  const TrainingArguments& training = arguments.training;
  if (!training.optim_args.value_or("").empty() && training.optim != "sgd" && training.optim != "adagrad" &&
      training.optim != "rmsprop")
    arguments.notes.push_back(fmt::format(
        "optim_args has no effect with {}, as in Trainer: use adam_beta1, adam_beta2, adam_epsilon", training.optim));
  ScriptArguments& script = arguments.script;
  if (script.dataset_name && !path_exists(*script.dataset_name))
    fail(ErrorKind::kUsage,
         "dataset_name: {} is no local directory, and data sets are not downloaded; give --train_file and "
         "--validation_file",
         transom::quoted(*script.dataset_name));
  if (script.dataset_name) find_data_set(script);
  if (script.delimiter == "\\t" || script.delimiter == "tab") script.delimiter = "\t";  // as awk and sort have it
  if (script.delimiter && script.delimiter->size() != 1)
    fail(ErrorKind::kUsage, "delimiter: expected one character, found {}", transom::quoted(*script.delimiter));
}

}  // namespace

bool is_given(const TrainArguments& arguments, std::string_view name) {
  return arguments.given && std::find(arguments.given->begin(), arguments.given->end(), name) != arguments.given->end();
}

void refuse_given(const TrainArguments& arguments, std::initializer_list<const char*> names, const std::string& why) {
  for (const char* name : names)
    if (is_given(arguments, name)) fail(ErrorKind::kUsage, "--{}: {}", name, why);
}

ArgumentTable script_table() {
  static const std::vector<Argument> rows = [] {
    std::vector<Argument> all(std::begin(kScriptArguments), std::end(kScriptArguments));
    for (const ArgumentTable more :
         {speech_arguments(), diffusion_arguments(), policy_arguments(), adapter_arguments()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

TrainArguments parse_train_json(std::string_view json, std::string_view where) {
  TrainArguments arguments;
  std::vector<std::string>& names = arguments.given.emplace();
  ForeignConfigs foreign;
  const std::vector<Argument> devices = device_table();
  const BoundTable tables[] = {{training_table(), &arguments.training, &names},
                               {script_table(), &arguments.script, &names},
                               {devices, &arguments.training.device_arguments, &names},
                               {foreign_table(), &foreign}};
  assign_all(tables, modernised(parse_json(json, where)), where, arguments.notes);
  resolve(arguments, foreign);
  return arguments;
}

TrainArguments parse_train_arguments(const std::vector<std::string>& given) {
  TrainArguments arguments;
  std::vector<std::string>& names = arguments.given.emplace();
  ForeignConfigs foreign;
  const std::vector<Argument> devices = device_table();
  const BoundTable tables[] = {{training_table(), &arguments.training, &names},
                               {script_table(), &arguments.script, &names},
                               {devices, &arguments.training.device_arguments, &names},
                               {foreign_table(), &foreign}};
  std::vector<std::string> flags = modernised(given);
  if (!flags.empty() && flags[0].ends_with(".json") && !flags[0].starts_with("-"))
    flags.insert(flags.begin(), "--config");
  std::vector<std::string> files;
  const std::vector<Option> own = {{.name = "--config", .value = &files, .takes = Option::Words::kOne}};
  // Files first, so that a flag goes before them wherever it stands.
  TrainArguments ignored_here;
  ForeignConfigs not_used;
  const BoundTable scratch[] = {{training_table(), &ignored_here.training},
                                {script_table(), &ignored_here.script},
                                {devices, &ignored_here.training.device_arguments},
                                {foreign_table(), &not_used}};
  arguments.help = assign_flags(scratch, flags, own, ignored_here.notes);
  for (const std::string& file : std::vector(files))
    assign_all(tables, modernised(read_json(file)), file, arguments.notes);
  assign_flags(tables, flags, own, arguments.notes);
  if (arguments.help) return arguments;
  resolve(arguments, foreign);
  return arguments;
}

}  // namespace transom
