// SPDX-License-Identifier: Apache-2.0
#include "transom/training_arguments.h"

#include <gtest/gtest.h>

#include "transom/error.h"

namespace transom {
namespace {

std::string refused_argument(const std::vector<std::string>& flags) {
  try {
    parse_train_arguments(flags);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(TrainingArguments, DefaultsAreThoseOfTransformers) {
  const TrainArguments arguments = parse_train_arguments({});
  EXPECT_EQ(arguments.training.learning_rate, 5e-5);
  EXPECT_EQ(arguments.training.num_train_epochs, 3);
  EXPECT_EQ(arguments.training.save_steps, 500);
  EXPECT_EQ(arguments.training.output_dir, "trainer_output");
  EXPECT_EQ(arguments.training.sampling_seed(), 42);
  EXPECT_TRUE(arguments.notes.empty());
}

TEST(TrainingArguments, FlagsAreReadAsHfArgumentParserReadsThem) {
  const TrainArguments arguments = parse_train_arguments({"--learning_rate",
                                                          "3e-4",
                                                          "--bf16",
                                                          "--max-steps=-1",
                                                          "--eval_strategy",
                                                          "steps",
                                                          "--logging_steps",
                                                          "50",
                                                          "--no_remove_unused_columns",
                                                          "--logging_first_step",
                                                          "True",
                                                          "--label_names",
                                                          "a",
                                                          "b",
                                                          "--report_to",
                                                          "tensorboard",
                                                          "--lr_scheduler_kwargs",
                                                          R"({"num_cycles": 2})",
                                                          "--evaluation_strategy",
                                                          "epoch",
                                                          "--text_column_names",
                                                          "title,body",
                                                          "--gradient_checkpointing"});
  const TrainingArguments& training = arguments.training;
  EXPECT_EQ(training.learning_rate, 3e-4);
  EXPECT_TRUE(training.bf16);
  EXPECT_EQ(training.max_steps, -1);
  EXPECT_FALSE(training.remove_unused_columns);
  EXPECT_TRUE(training.logging_first_step);
  EXPECT_EQ(training.label_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(training.report_to, std::vector<std::string>{"tensorboard"});
  EXPECT_EQ(training.lr_scheduler_kwargs.text, R"({"num_cycles": 2})");
  EXPECT_EQ(training.eval_strategy, "epoch");
  EXPECT_TRUE(training.do_eval);
  EXPECT_TRUE(training.activation_checkpointing);
  EXPECT_EQ(arguments.script.text_column_names, "title,body");
  EXPECT_FALSE(parse_train_arguments({"--bf16", "false"}).training.bf16);
  EXPECT_EQ(parse_train_arguments({"--group_by_length"}).training.train_sampling_strategy, "group_by_length");
  const TrainArguments valued =
      parse_train_arguments({"--group_by_length", "True", "--adafactor", "true", "--seed", "3"});
  EXPECT_EQ(valued.training.train_sampling_strategy, "group_by_length");
  EXPECT_EQ(valued.training.optim, "adafactor");
  EXPECT_EQ(valued.training.seed, 3);
  EXPECT_EQ(parse_train_arguments({"--group_by_length", "False"}).training.train_sampling_strategy, "random");
  for (const char* tab : {"\t", "\\t", "tab"})
    EXPECT_EQ(parse_train_arguments({"--delimiter", tab}).script.delimiter, "\t");
}

TEST(TrainingArguments, RefusalsNameTheFlagAndWhatItTakes) {
  EXPECT_EQ(refused_argument({"--learning_rat", "1"}),
            "unknown argument '--learning_rat', did you mean '--learning_rate'?");
  EXPECT_EQ(refused_argument({"--learning_rate", "fast"}), "--learning_rate: expected a number, found 'fast'");
  EXPECT_EQ(refused_argument({"--learning_rate", "-1"}), "--learning_rate: expected a number of at least 0, found -1");
  EXPECT_EQ(refused_argument({"--learning_rate", "nan"}),
            "--learning_rate: expected a number of at least 0, found nan");
  EXPECT_EQ(refused_argument({"--adam_beta1", "2"}),
            "--adam_beta1: expected a number of at least 0 and of at most 1, found 2");
  EXPECT_EQ(refused_argument({"--max_steps"}), "--max_steps: expected a value, found none");
  EXPECT_EQ(refused_argument({"--max_steps", "1.5"}), "--max_steps: expected a whole number, found '1.5'");
  EXPECT_EQ(refused_argument({"--bf16", "perhaps"}), "--bf16: expected true or false, found 'perhaps'");
  EXPECT_EQ(refused_argument({"--eval_strategy", "step"}),
            "--eval_strategy: expected one of no, steps, epoch, found 'step', did you mean 'steps'?");
  EXPECT_EQ(refused_argument({"--batch_size", "4"}),
            "unknown argument '--batch_size', did you mean '--per_device_train_batch_size'?");
  EXPECT_EQ(refused_argument({"--epochs", "4"}), "unknown argument '--epochs', did you mean '--num_train_epochs'?");
  EXPECT_EQ(refused_argument({"--delimiter", ";;"}), "delimiter: expected one character, found ';;'");
  EXPECT_EQ(refused_argument({"here"}), "not expected: 'here'");
  EXPECT_EQ(refused_argument({"--accelerator_config", "config.json"}),
            "--accelerator_config: 'config.json' is not supported: Accelerate is not used");
  EXPECT_NE(refused_argument({"--lr_scheduler_type", "greedy"}).find("expected one of linear"), std::string::npos);
  EXPECT_NE(refused_argument({"--push_to_hub"}).find("does not upload"), std::string::npos);
  EXPECT_NE(refused_argument({"--dataset_name", "glue"}).find("not downloaded"), std::string::npos);
}

TEST(TrainingArguments, ContradictionsAreRefused) {
  EXPECT_NE(refused_argument({"--fp16"}).find("--bf16"), std::string::npos);
  EXPECT_NE(refused_argument({"--activation_checkpointing_kwargs", "{\"every_n_layers\": 2}"}), "accepted");
  EXPECT_EQ(refused_argument({"--gradient_checkpointing_kwargs", "{\"use_reentrant\": false}"}), "accepted");
  EXPECT_NE(refused_argument({"--fp16", "--bf16"}), "accepted");
  EXPECT_NE(refused_argument({"--load_best_model_at_end"}), "accepted");
  EXPECT_NE(refused_argument({"--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "200"}),
            "accepted");
  EXPECT_NE(refused_argument({"--lr_scheduler_type", "reduce_lr_on_plateau"}), "accepted");
  EXPECT_NE(refused_argument({"--save_steps", "2.5"}), "accepted");
  EXPECT_EQ(refused_argument(
                {"--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "0.1", "--save_steps", "0.3"}),
            "accepted");
  EXPECT_EQ(refused_argument(
                {"--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "0.5", "--save_steps", "1"}),
            "accepted");
  // The last update alone is saved.
  EXPECT_EQ(refused_argument({"--save_steps", "0"}), "accepted");
}

TEST(TrainingArguments, WhatMeansNothingHereIsSaid) {
  const TrainArguments arguments = parse_train_arguments({"--dataloader_num_workers", "4", "--push_to_hub", "false"});
  ASSERT_EQ(arguments.notes.size(), 1U);
  EXPECT_TRUE(arguments.notes[0].starts_with("dataloader_num_workers has no effect"));
  const TrainArguments optimizer = parse_train_arguments({"--optim", "adamw_torch", "--optim_args", "eps=1e-3"});
  ASSERT_EQ(optimizer.notes.size(), 1U);
  EXPECT_TRUE(optimizer.notes[0].starts_with("optim_args has no effect"));
  EXPECT_TRUE(parse_train_arguments({"--optim", "sgd", "--optim_args", "momentum=0.9"}).notes.empty());
}

TEST(TrainingArguments, DerivedValues) {
  TrainingArguments training = parse_train_json(R"({"eval_strategy": "steps", "logging_steps": 7,
      "load_best_model_at_end": true, "save_steps": 14, "metric_for_best_model": "accuracy"})",
                                                "args.json")
                                   .training;
  EXPECT_EQ(training.eval_steps, 7);
  EXPECT_EQ(training.greater_is_better, true);
  training = {};
  EXPECT_EQ(training.warmup_steps_of(100), 0);
  training.warmup_steps = 10;
  EXPECT_EQ(training.warmup_steps_of(100), 10);
  training.warmup_steps = 0.055;
  EXPECT_EQ(training.warmup_steps_of(100), 6);
  training.warmup_steps = 0;
  training.warmup_ratio = 1;
  EXPECT_EQ(training.warmup_steps_of(100), 100);
}

TEST(TrainingArguments, JsonComesBackTheSame) {
  TrainingArguments training;
  training.learning_rate = 1e-3;
  training.lr_scheduler_kwargs.text = R"({"num_cycles": 2})";
  training.label_names = {"labels"};
  const std::string json = training.to_json();
  EXPECT_EQ(parse_train_json(json, "training_args.json").training.to_json(), json);
}

TEST(TrainingArguments, FsdpIsReadAsTransformersWritesIt) {
  const auto fsdp = [](const char* value) {
    return parse_train_json(std::string("{\"fsdp\": ") + value + ", \"fsdp_config\": null}", "args.json").training.fsdp;
  };
  EXPECT_EQ(fsdp("null"), "");
  EXPECT_EQ(fsdp("[]"), "");
  EXPECT_EQ(fsdp("true"), "true");
  EXPECT_EQ(fsdp(R"(["full_shard", "auto_wrap"])"), "full_shard auto_wrap");
  EXPECT_FALSE(parse_train_json(R"({"resume_from_checkpoint": null})", "args.json").training.resume_from_checkpoint);
  EXPECT_EQ(refused_argument({"--fsdp_config", "null"}), "accepted");
}

TEST(TrainingArguments, JsonRefusalsNameTheFile) {
  try {
    parse_train_json(R"({"learning_rate": [1]})", "args.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "args.json: learning_rate: expected a number, found '[1]'");
  }
  EXPECT_THROW(parse_train_json("[]", "args.json"), Error);
  EXPECT_THROW(parse_train_json(R"({"learning_rat": 1})", "args.json"), Error);
}

// As HfArgumentParser's users write it, and as a file of arguments does.
TEST(TrainingArguments, ResumingNeedsNoValue) {
  using Flags = std::vector<std::string>;
  const auto resumes = [](const Flags& flags) { return parse_train_arguments(flags).training.resume_from_checkpoint; };
  EXPECT_EQ(resumes({"--resume_from_checkpoint"}), "true");
  EXPECT_EQ(resumes({"--resume_from_checkpoint", "--seed", "1"}), "true");
  EXPECT_EQ(resumes({"--resume_from_checkpoint", "out/checkpoint-3"}), "out/checkpoint-3");
  EXPECT_EQ(resumes({"--resume_from_checkpoint", "false"}), std::nullopt);
  EXPECT_EQ(resumes({}), std::nullopt);
  const auto in_file = [](const char* value) {
    return parse_train_json(std::string("{\"resume_from_checkpoint\": ") + value + "}", "args.json")
        .training.resume_from_checkpoint;
  };
  EXPECT_EQ(in_file("true"), "true");
  EXPECT_EQ(in_file("false"), std::nullopt);
  EXPECT_EQ(in_file("null"), std::nullopt);
  EXPECT_EQ(in_file("\"out/checkpoint-3\""), "out/checkpoint-3");
  EXPECT_THROW(parse_train_arguments({"--output_dir"}), Error);
}

// As their dataclasses write themselves: what was not given is null, auto or a list of one.
TEST(TrainingArguments, ConfigurationsOfTrlSayNothingWhereNothingWasGiven) {
  const TrainArguments arguments = parse_train_json(R"({"task": "online-dpo", "bf16": null, "pad_token": null,
      "activation_checkpointing": null, "model_init_kwargs": null, "dataset_kwargs": null, "pad_to_multiple_of": "auto",
      "max_length": null, "beta": [0.2], "attn_implementation": null, "lora_target_parameters": null, "bnb_4bit_quant_storage": null,
      "dataset_config": null, "dataset_train_split": "train", "dataset_test_split": "test", "dataset_streaming": false,
      "ignore_bias_buffers": false})",
                                                    "args.json");
  EXPECT_FALSE(arguments.training.bf16);
  EXPECT_FALSE(arguments.script.pad_to_multiple_of);
  EXPECT_EQ(arguments.script.beta, 0.2);
  EXPECT_GE(arguments.script.max_seq_length, 1 << 20) << "rows are whole";
  EXPECT_FALSE(parse_train_arguments({"--pad_to_multiple_of", "auto"}).script.pad_to_multiple_of);
}

// Those of preferences name what models with an encoder would need; of policies null would mean without an end.
TEST(TrainingArguments, PreferencesSayNothingOfCompletions) {
  const char* of_preferences = R"({"task": "cpo", "cpo_alpha": 1.0, "max_completion_length": null})";
  EXPECT_EQ(parse_train_json(of_preferences, "args.json").script.cpo_alpha, 1);
  EXPECT_THROW(
      parse_train_json(R"({"task": "grpo", "num_generations": 2, "max_completion_length": null})", "args.json"), Error);
}

TEST(TrainingArguments, NumbersAreWordsOfAList) {
  const TrainArguments arguments = parse_train_json(R"({"matryoshka_dims": [16, 8]})", "args.json");
  EXPECT_EQ(arguments.script.matryoshka_dims,
            parse_train_arguments({"--matryoshka_dims", "16", "8"}).script.matryoshka_dims);
}

TEST(TrainingArguments, WhatTrlHasBesideIsRefusedByName) {
  const auto refused_json = [](const std::string& text) -> std::string {
    try {
      parse_train_json(text, "args.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refused_json(R"({"model_init_kwargs": {"dtype": "bfloat16"}})").find("such as --dtype"), std::string::npos);
  EXPECT_NE(refused_json(R"({"beta": [0.2, 0.1]})").find("beta: expected a number"), std::string::npos);
  EXPECT_NE(refused_argument({"--lora_target_parameters", "experts.gate"}).find("lora_target_parameters"),
            std::string::npos);
  EXPECT_NE(refused_argument({"--dataset_streaming"}).find("rows are read from files"), std::string::npos);
}

// Each name that is listed first is one of a field.
TEST(TrainingArguments, HelpBeginsWithWhatIsUsedMost) {
  for (const auto& [help, count] : {std::pair(train_help(), 18), std::pair(evaluate_help(), 8)}) {
    const size_t begin = help.find("\nMost used\n"), end = help.find("\n\n", begin + 2);
    ASSERT_NE(begin, help.npos);
    int found = 0;
    for (size_t at = help.find("\n  --", begin); at < end; at = help.find("\n  --", at + 1)) ++found;
    EXPECT_EQ(found, count) << help.substr(begin, end - begin);
  }
}

TEST(TrainingArguments, HelpNamesEveryField) {
  const std::string help = train_help();
  EXPECT_NE(help.find("--learning_rate X "), std::string::npos);
  EXPECT_NE(help.find("(default: 5e-05)"), std::string::npos);
  EXPECT_NE(help.find("--train_file TEXT"), std::string::npos);
  for (size_t start = 0; start < help.size(); start = help.find('\n', start) + 1)
    EXPECT_LE(help.find('\n', start) - start, 110U);
}

}  // namespace
}  // namespace transom
