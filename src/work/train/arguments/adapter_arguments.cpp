// SPDX-License-Identifier: Apache-2.0
// The arguments of adapters, by the names of PEFT's configurations and of TRL's ModelConfig.
#include "work/train/arguments/argument_tables.h"

namespace transom {
namespace {

using A = ScriptArguments;

const Argument kAdapterArguments[] = {
    section("Adapters"),
    field<&A::use_peft>("use_peft", "Train adapters beside the frozen weights, and save them as PEFT does."),
    field<&A::peft_type>("peft_type", "Kind of adapters, as PEFT names it.")
        .one_of({"LORA", "ADALORA", "IA3", "LN_TUNING", "LOHA", "LOKR", "P_TUNING", "PREFIX_TUNING", "PROMPT_TUNING",
                 "TRAINABLE_TOKENS", "VERA"}),
    field<&A::peft_config>("peft_config", "Any fields of adapter_config.json, as an object or a file."),
    field<&A::num_virtual_tokens>("num_virtual_tokens", "Virtual tokens of prompt, prefix and P-tuning (default 20).")
        .at_least(1),
    field<&A::prompt_tuning_init>("prompt_tuning_init", "How virtual tokens begin (default RANDOM).")
        .one_of({"RANDOM", "TEXT", "SAMPLE_VOCAB"}),
    field<&A::prompt_tuning_init_text>("prompt_tuning_init_text", "The text that they begin as."),
    field<&A::encoder_hidden_size>("encoder_hidden_size", "Width of what makes virtual tokens (default: the model's).")
        .at_least(1),
    field<&A::encoder_reparameterization_type>("encoder_reparameterization_type", "What that is in P-tuning.")
        .one_of({"MLP", "LSTM"}),
    field<&A::prefix_projection>("prefix_projection", "Two layers make the keys and values of prefix tuning."),
    field<&A::feedforward_modules>("feedforward_modules", "Modules whose inputs IA3 scales, among the target modules."),
    field<&A::exclude_modules>("exclude_modules", "Modules that stay as they are."),
    field<&A::init_lora_weights>(
        "init_lora_weights",
        "How LoRA begins: true, false, gaussian, orthogonal, olora, pissa, eva, or loftq beside "
        "--load_in_4bit."),
    field<&A::init_r>("init_r", "Rank that AdaLoRA begins with (default 12).").at_least(1),
    field<&A::target_r>("target_r", "Mean rank that AdaLoRA comes to (default 8).").at_least(1),
    field<&A::tinit>("tinit", "Updates before AdaLoRA masks ranks (default 0).").at_least(0),
    field<&A::tfinal>("tfinal", "Updates behind the last mask of AdaLoRA (default 0).").at_least(0),
    field<&A::lora_r>("lora_r", "Rank of the adapters.").at_least(1),
    field<&A::lora_alpha>("lora_alpha", "LoRA alpha: the update is scaled by alpha / r."),
    field<&A::lora_dropout>("lora_dropout", "Dropout before the adapters.").at_least(0).at_most(1),
    field<&A::lora_target_modules>("lora_target_modules",
                                   "Linear layers that get adapters: names, a regular expression for whole names, or "
                                   "all-linear (default: PEFT's for the type of the model)."),
    field<&A::lora_modules_to_save>("lora_modules_to_save", "Modules that are trained and saved whole (heads are)."),
    field<&A::lora_task_type>("lora_task_type", "Task in adapter_config.json (default: that of the model's class).")
        .one_of({"CAUSAL_LM", "SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS", "SEQ_2_SEQ_LM", "FEATURE_EXTRACTION"}),
    field<&A::lora_bias>("lora_bias", "Biases that are trained too.").one_of({"none", "all", "lora_only"}),
    field<&A::lora_rank_pattern>("lora_rank_pattern", "Other ranks for some modules, as an object or a file."),
    field<&A::lora_alpha_pattern>("lora_alpha_pattern", "Other alphas for some modules."),
    field<&A::use_rslora>("use_rslora", "Scale by alpha / sqrt(r) (rsLoRA)."),
    field<&A::use_dora>("use_dora", "Train the magnitudes of the weight rows too (DoRA)."),
    only_default("lora_target_parameters", {"", "null", "none", "[]"},
                 "adapters stand on layers; see --lora_target_modules"),
    ignored("bnb_4bit_quant_storage", "codes are bytes"),
    only_default("load_in_8bit", {"false", "0", "no"}, "weights of adapters' models are not quantised"),
    only_default("load_in_4bit", {"false", "0", "no"}, "weights of adapters' models are not quantised"),
};

}  // namespace

ArgumentTable adapter_arguments() { return kAdapterArguments; }

}  // namespace transom
