// SPDX-License-Identifier: Apache-2.0
// Training of Stable Diffusion: what is refused, and what is saved. Its numbers are in recorded_training_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "files/original/pipeline_files.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/pipelines/diffusion/lora/lora_file.h"
#include "work/pipelines/pipeline.h"
#include "work/train/tasks/diffusion/control_training.h"
#include "work/train/tasks/diffusion/noisy_pictures.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tasks/tasks.h"

namespace transom {
namespace {

class TrainingOfLatents : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "pictures");
    for (const char* name : {"0.png", "1.png", "2.png", "3.png", "metadata.jsonl"})
      fs::copy_file(golden() / "training" / "pictures" / name, pictures() / name);
  }
  static fs::path golden() { return test::golden_folder() / "diffusion"; }
  static std::string pipeline_folder() { return (golden() / "sd-pndm" / "model").string(); }
  fs::path pictures() const { return folder_.path() / "pictures"; }
  fs::path out() const { return folder_.path() / "out"; }
  TrainArguments arguments(const std::string& task, std::vector<std::string> flags) const {
    const std::vector<std::string> usual{"--task",       task,           "--model_name_or_path", pipeline_folder(),
                                         "--resolution", "16",           "--train_data_dir",     pictures().string(),
                                         "--output_dir", out().string(), "--max_train_steps",    "2",
                                         "--report_to",  "none",         "--learning_rate",      "1e-2"};
    flags.insert(flags.begin(), usual.begin(), usual.end());
    TrainArguments made = parse_train_arguments(flags);
    made.training.resolve();
    return made;
  }
  std::string refusal(const std::string& task, const std::vector<std::string>& flags) const {
    const test::KeptLog quiet;
    std::string message = test::message_of([&] { prepare_task(arguments(task, flags)); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  void train(const TrainArguments& given, const std::optional<std::string>& resumed = std::nullopt) const {
    const test::KeptLog quiet;
    TaskSetup task = prepare_task(given);
    Trainer trainer(std::move(task.model), task.training);
    configure_trainer(trainer, task);
    trainer.train(resumed);
    trainer.save_model();
  }
  test::TemporaryFolder folder_;
};

#define EXPECT_SAYS(message, words) EXPECT_NE((message).find(words), std::string::npos) << (message)

TEST_F(TrainingOfLatents, BadRowsAreNamedBeforeTheFirstUpdate) {
  const auto with_rows = [&](const std::string& rows) {
    write_file(pictures() / "metadata.jsonl", rows);
    return refusal("text-to-image", {});
  };
  EXPECT_SAYS(with_rows("{\"file_name\": \"0.png\"}\n"), "captions");
  EXPECT_SAYS(with_rows("{\"file_name\": \"0.png\", \"text\": []}\n"), "metadata.jsonl");
  EXPECT_SAYS(with_rows("{\"file_name\": \"0.png\", \"conditioning_image\": \"3.png\", \"prompt\": \"a cat\"}\n"),
              "found file_name, conditioning_image, prompt; name it with --caption_column");
  EXPECT_SAYS(with_rows("{\"file_name\": \"9.png\", \"text\": \"a cat\"}\n"), "9.png");
  write_file(pictures() / "1.png", "no picture");
  EXPECT_SAYS(with_rows("{\"file_name\": \"1.png\", \"text\": \"a cat\"}\n"), "1.png");
  fs::remove(pictures() / "metadata.jsonl");
  EXPECT_SAYS(refusal("text-to-image", {}), "metadata.jsonl");
}

TEST_F(TrainingOfLatents, ArgumentsThatCannotBeCarriedOutAreRefused) {
  EXPECT_SAYS(refusal("text-to-image", {"--resolution", "17"}), "multiple of 2");
  EXPECT_SAYS(refusal("text-to-image", {"--use_peft", "--use_ema"}), "--use_ema");
  EXPECT_SAYS(refusal("text-to-image", {"--use_peft", "--use_dora"}), "--use_dora");
  EXPECT_SAYS(refusal("text-to-image", {"--prediction_type", "sample"}), "epsilon or v_prediction");
  EXPECT_SAYS(refusal("text-to-image", {"--dream_training", "--prediction_type", "v_prediction"}), "--dream_training");
  EXPECT_SAYS(refusal("text-to-image", {"--timestep_bias_strategy", "range", "--timestep_bias_end", "2000"}),
              "--timestep_bias_end");
  EXPECT_SAYS(refusal("dreambooth", {}), "--instance_prompt");
  EXPECT_SAYS(refusal("dreambooth", {"--instance_prompt", "a", "--class_prompt", "b"}), "--with_prior_preservation");
  EXPECT_SAYS(refusal("dreambooth", {"--instance_prompt", "a", "--class_prompt", "b", "--with_prior_preservation",
                                     "--class_data_dir", pictures().string()}),
              "expected 100 pictures (--num_class_images), found 4");
  EXPECT_SAYS(refusal("dreambooth", {"--instance_prompt", "a", "--max_train_samples", "2"}), "--max_train_samples");
  EXPECT_SAYS(refusal("dreambooth", {"--instance_prompt", "a", "--validation_dir", pictures().string()}),
              "--validation_dir");
  EXPECT_SAYS(refusal("text-to-image-control", {"--conditioning_image_column", "edges"}), "edges");
  EXPECT_SAYS(refusal("text-to-image-control", {"--use_peft"}), "--use_peft");
  EXPECT_SAYS(refusal("text-to-image-control",
                      {"--controlnet_model_name_or_path", (fs::path(pipeline_folder()) / "unet").string()}),
              "ControlNetModel");
}

TEST_F(TrainingOfLatents, DefaultsAreThoseOfTheScripts) {
  const auto of = [](std::vector<std::string> flags, void (*defaults)(TrainArguments&)) {
    TrainArguments made = parse_train_arguments(flags);
    defaults(made);
    return made.training;
  };
  const std::vector<std::string> usual{"--model_name_or_path", "m", "--train_dir", "p", "--output_dir", "o"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), usual.begin(), usual.end());
    return more;
  };
  const TrainingArguments drawn = of(with({"--lr_scheduler", "linear"}), text_to_image_defaults);
  EXPECT_EQ(drawn.per_device_train_batch_size, 16);
  EXPECT_EQ(drawn.num_train_epochs, 100);
  EXPECT_EQ(drawn.warmup_steps, 500);
  EXPECT_EQ(of(usual, text_to_image_defaults).warmup_steps, 0);
  EXPECT_EQ(of(usual, controlnet_defaults).per_device_train_batch_size, 4);
  EXPECT_EQ(of(usual, dreambooth_defaults).learning_rate, 5e-6);
  EXPECT_EQ(of(with({"--use_peft"}), dreambooth_defaults).learning_rate, 5e-4);
  // By as many rows as a batch has, given or not.
  EXPECT_EQ(of(with({"--scale_lr"}), dreambooth_defaults).learning_rate, 5e-6 * 4);
  const TrainingArguments alone = of(usual, unconditional_image_defaults);
  EXPECT_EQ(alone.per_device_train_batch_size, 16);
  EXPECT_EQ(alone.num_train_epochs, 100);
  EXPECT_EQ(alone.warmup_steps, 500);
}

TEST_F(TrainingOfLatents, DefaultsOfFlowsAreThoseOfTheirScripts) {
  const auto of = [&](const char* pipeline, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--model_name_or_path", (golden() / pipeline / "model").string(), "--train_dir", "p",
                                 "--output_dir", "o"});
    TrainArguments made = parse_train_arguments(flags);
    dreambooth_defaults(made);
    return made;
  };
  for (const char* pipeline : {"flux", "sd3"})
    for (const bool of_lora : {false, true}) {
      const TrainArguments made =
          of(pipeline, of_lora ? std::vector<std::string>{"--use_peft"} : std::vector<std::string>{});
      EXPECT_EQ(made.training.learning_rate, 1e-4);
      EXPECT_EQ(made.training.weight_decay, 1e-4);
    }
  EXPECT_EQ(of("flux", {"--use_peft", "--rank", "8"}).script.lora_alpha, 4);
  EXPECT_EQ(of("sd3", {"--use_peft", "--rank", "8"}).script.lora_alpha, 8);
  EXPECT_EQ(of("sd3", {"--use_peft", "--lora_blocks", "1", "--lora_layers", "attn.to_q,attn.to_k"})
                .script.lora_target_modules,
            (std::vector<std::string>{"transformer_blocks.1.attn.to_q", "transformer_blocks.1.attn.to_k"}));
  EXPECT_EQ(of("sd3", {"--use_peft", "--lora_blocks", "0,1"}).script.lora_target_modules.size(), 16u);
  EXPECT_SAYS(test::message_of([&] { of("sd3", {"--use_peft", "--lora_blocks", "1x"}); }), "--lora_blocks");
}

TEST_F(TrainingOfLatents, ArgumentsOfOtherNetworksAreRefused) {
  const auto refused = [&](const char* pipeline, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--model_name_or_path", (golden() / pipeline / "model").string()});
    return refusal("text-to-image", flags);
  };
  for (const char* name : {"snr_gamma", "noise_offset", "input_perturbation"})
    EXPECT_SAYS(refused("sd3", {fmt::format("--{}", name), "1"}), name);
  EXPECT_SAYS(refused("flux", {"--prediction_type", "epsilon"}), "--prediction_type");
  EXPECT_SAYS(refused("flux", {"--precondition_outputs", "false"}), "--precondition_outputs");
  EXPECT_SAYS(refused("sd3", {"--guidance_scale", "2"}), "--guidance_scale");
  EXPECT_SAYS(refused("sd3", {"--mode_scale", "2"}), "--mode_scale");
  EXPECT_SAYS(refused("flux", {"--logit_std", "2"}), "--logit_std");
  EXPECT_SAYS(refused("sd-pndm", {"--weighting_scheme", "mode"}), "--weighting_scheme");
  EXPECT_SAYS(refused("sd-pndm", {"--max_sequence_length", "20"}), "--max_sequence_length");
  EXPECT_SAYS(refused("flux", {"--resolution", "18"}), "multiple of 4");
  const std::vector<std::string> control{"--model_name_or_path", (golden() / "sd3" / "model").string()};
  EXPECT_SAYS(refusal("text-to-image-control", control), "ControlNet");
}

TEST_F(TrainingOfLatents, AWordNeedsANameAndABeginning) {
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> flags{"--placeholder_token", "<cat>", "--initializer_token", "a"};
    flags.insert(flags.end(), more.begin(), more.end());
    return refusal("textual-inversion", flags);
  };
  EXPECT_SAYS(refusal("textual-inversion", {}), "--placeholder_token");
  EXPECT_SAYS(refusal("textual-inversion", {"--placeholder_token", "<cat>"}), "--initializer_token");
  EXPECT_SAYS(refused({"--initializer_token", "a photo of cats"}), "expected one token");
  EXPECT_SAYS(refused({"--placeholder_token", "<|endoftext|>"}), "has '<|endoftext|>' already");
  EXPECT_SAYS(refused({"--use_peft"}), "--use_peft");
  EXPECT_SAYS(refused({"--use_ema"}), "--use_ema");
  EXPECT_SAYS(refused({"--save_as_full_pipeline"}), "--save_as_full_pipeline");
  EXPECT_SAYS(refused({"--validation_dir", pictures().string()}), "--validation_dir");
  EXPECT_SAYS(refused({"--model_name_or_path", (golden() / "sdxl" / "model").string()}), "StableDiffusionPipeline");
  TrainArguments made = arguments("textual-inversion", {"--placeholder_token", "<cat>"});
  textual_inversion_defaults(made);
  EXPECT_EQ(made.training.max_grad_norm, 0);
  EXPECT_EQ(made.training.per_device_train_batch_size, 16);
}

// What was learned is drawn with, and a run goes on where it stopped.
TEST_F(TrainingOfLatents, AWordIsDrawnWith) {
  const std::vector<std::string> flags{"--placeholder_token", "<cat>", "--initializer_token", "a", "--num_vectors", "2",
                                       "--train_batch_size",  "2",     "--save_steps",        "1"};
  train(arguments("textual-inversion", flags));
  const std::string learned = read_file(out() / "learned_embeds.safetensors");
  fs::remove(out() / "learned_embeds.safetensors");
  train(arguments("textual-inversion", flags), (out() / "checkpoint-1").string());
  EXPECT_EQ(read_file(out() / "learned_embeds.safetensors"), learned);
  const auto pipeline = make_pipeline("text-to-image", pipeline_folder());
  const auto drawn = [&](bool with_word) {
    TaskOptions options;
    for (const auto& [name, value] : {std::pair("num_inference_steps", 1), {"height", 16}, {"width", 16}, {"seed", 1}})
      options.set(name, int64_t{value});
    if (with_word) options.set("textual_inversion", out().string());
    const auto results = run_pipeline(*pipeline, {TextInput("a <cat>")}, options);
    return std::get<std::vector<Picture>>(results.at(0)).at(0).values;
  };
  EXPECT_NE(drawn(true), drawn(false));
}

// PEFT's names of the factors, as diffusers gives them to transformers; in 16 bits, too.
TEST_F(TrainingOfLatents, ALoraOfAFlowIsDrawnWith) {
  const std::string base = (golden() / "flux" / "model").string();
  train(arguments("text-to-image", {"--model_name_or_path", base, "--use_peft", "--rank", "2", "--lora_blocks", "0",
                                    "--bf16", "--max_sequence_length", "8", "--train_batch_size", "2"}));
  const LoraProducts products = read_lora((out() / kLoraWeightsName).string());
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products.at("transformer").size(), 12u);
  for (const auto& [module, product] : products.at("transformer")) EXPECT_EQ(product.scale, 2) << module;
  const auto pipeline = make_pipeline("text-to-image", base);
  const auto drawn = [&](bool with_lora) {
    TaskOptions options;
    for (const auto& [name, value] : {std::pair("num_inference_steps", 1), {"height", 16}, {"width", 16}, {"seed", 1}})
      options.set(name, int64_t{value});
    if (with_lora) options.set("lora", out().string());
    const auto results = run_pipeline(*pipeline, {TextInput("a dog")}, options);
    return std::get<std::vector<Picture>>(results.at(0)).at(0).values;
  };
  EXPECT_NE(drawn(true), drawn(false));
}

TEST_F(TrainingOfLatents, AnAverageOfSpreadWeightsIsRefused) {
  const test::KeptLog quiet;
  const TaskSetup averaged = prepare_task(arguments("text-to-image", {"--use_ema"}));
  averaged.objective->expect(false, false);
  EXPECT_SAYS(test::message_of([&] { averaged.objective->expect(true, false); }), "--use_ema");
  prepare_task(arguments("text-to-image", {})).objective->expect(true, false);
}

// Factors by diffusers' names, which the pictures of a pipeline take; and the adapters, from which training goes on.
TEST_F(TrainingOfLatents, AdaptersAreSavedAsALoraThatIsDrawnWith) {
  train(arguments("text-to-image", {"--use_peft", "--rank", "2", "--lora_alpha", "4"}));
  const LoraProducts products = read_lora((out() / kLoraWeightsName).string());
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products.at("unet").size(),
            SafetensorsFile::open(out() / "adapter_model.safetensors").tensors().size() / 2);
  for (const auto& [module, product] : products.at("unet")) EXPECT_EQ(product.scale, 2) << module;
  const auto pipeline = make_pipeline("text-to-image", pipeline_folder());
  const auto drawn = [&](bool with_lora) {
    TaskOptions options;
    for (const auto& [name, value] : {std::pair("num_inference_steps", 1), {"height", 16}, {"width", 16}, {"seed", 1}})
      options.set(name, int64_t{value});
    if (with_lora) options.set("lora", out().string());
    const auto results = run_pipeline(*pipeline, {TextInput("a dog")}, options);
    return std::get<std::vector<Picture>>(results.at(0)).at(0).values;
  };
  EXPECT_NE(drawn(true), drawn(false));
}

// As a hub's snapshot has them: each file is a relative link to one of blobs/.
TEST_F(TrainingOfLatents, PartsOfABaseOfLinksAreCopied) {
  const fs::path base = folder_ / "snapshots" / "1", blobs = folder_ / "blobs";
  for (const fs::path& folder : {base, blobs}) fs::create_directories(folder);
  fs::copy(pipeline_folder(), base, fs::copy_options::recursive);
  size_t number = 0;
  for (const fs::path& file : list_files_below(base)) {
    const fs::path blob = blobs / std::to_string(number++);
    fs::rename(file, blob);
    fs::create_symlink(fs::relative(blob, file.parent_path()), file);
  }
  train(arguments("text-to-image", {"--model_name_or_path", base.string(), "--max_train_steps", "1"}));
  for (const char* name : {"vae/config.json", "vae/diffusion_pytorch_model.safetensors", "text_encoder/config.json"}) {
    EXPECT_EQ(fs::symlink_status(out() / name).type(), fs::file_type::regular) << name;
    EXPECT_EQ(read_file(out() / name), read_file(base / name)) << name;
    EXPECT_EQ(fs::hard_link_count(out() / name), 1u) << name;
  }
  EXPECT_EQ(fs::hard_link_count(out() / "unet" / kNetworkWeightsName), 1u);
}

TEST_F(TrainingOfLatents, TheGivenAutoencoderIsSaved) {
  const fs::path given = folder_ / "given";
  fs::copy(fs::path(pipeline_folder()) / "vae", given);
  write_file(given / "README.md", "an autoencoder");
  Json config = read_json(given / "config.json");
  config["scaling_factor"] = 0.5;
  write_file(given / "config.json", dump_json(config));
  const std::string flag = "--pretrained_vae_model_name_or_path";
  EXPECT_SAYS(refusal("text-to-image", {flag, pipeline_folder() + "/unet"}), "expected an AutoencoderKL");
  train(arguments("text-to-image", {flag, given.string(), "--max_train_steps", "1"}));
  for (const char* name : {"config.json", kNetworkWeightsName})
    EXPECT_EQ(read_file(out() / "vae" / name), read_file(given / name)) << name;
  EXPECT_FALSE(path_exists(out() / "vae" / "README.md"));
  EXPECT_TRUE(path_exists(out() / "text_encoder" / "config.json"));
}

TEST_F(TrainingOfLatents, AResumedRunHasTheSameAverage) {
  const std::vector<std::string> flags{"--use_ema", "--max_train_steps", "4", "--save_steps",
                                       "2",         "--logging_steps",   "1"};
  train(arguments("text-to-image", flags));
  const fs::path weights = out() / "unet" / kNetworkWeightsName;
  const std::string whole = read_file(weights);
  fs::remove(weights);
  train(arguments("text-to-image", flags), (out() / "checkpoint-2").string());
  EXPECT_EQ(read_file(weights), whole);
}

TEST_F(TrainingOfLatents, TextsThatAreNotKeptGiveTheSameNumbers) {
  const test::KeptLog quiet;
  const PipelineDirectory directory((golden() / "sdxl" / "model").string());
  const auto encoders =
      std::make_shared<const PromptEncoders>(directory, LoadOptions{.dtype = "float32"}, PromptEncoders::Kind::kXl);
  const auto batch_of = [&](size_t most_kept) {
    TextStates states(encoders, most_kept);
    std::vector<size_t> places;
    for (const char* text : {"a cat", "the sea", "a cat", "", "a red house"}) places.push_back(states.place_of(text));
    EXPECT_EQ(places, (std::vector<size_t>{0, 1, 0, 2, 3}));
    states.close();
    Batch batch;
    states.add(batch, {3, 0, 2, 2, 1});
    return batch;
  };
  const Batch kept = batch_of(TextStates::kMostKept), again = batch_of(1);
  for (const char* name : {"encoder_hidden_states", "text_embeds"}) {
    EXPECT_EQ(kept.arrays.at(name).shape, again.arrays.at(name).shape);
    EXPECT_EQ(kept.arrays.at(name).shape[0], 5);
    EXPECT_EQ(kept.arrays.at(name).values, again.arrays.at(name).values) << name;
  }
}

// Until it is trained it adds nothing, and its way down is the U-Net's.
TEST_F(TrainingOfLatents, ANewControlNetAddsNothing) {
  const TaskSetup task = [&] {
    const test::KeptLog quiet;
    return prepare_task(arguments("text-to-image-control", {}));
  }();
  const auto unet = Model::from_pretrained(pipeline_folder() + "/unet");
  size_t shared = 0;
  for (const auto& own : task.model->parameters())
    for (const auto& of_unet : unet->parameters())
      if (own->name == of_unet->name) {
        ++shared;
        EXPECT_EQ(own->value.to_bytes(), of_unet->value.to_bytes()) << own->name;
      }
  EXPECT_GT(shared, 40u);
  const NamedTensors said =
      task.model->forward({{"sample", Tensor::from(std::vector<float>(4 * 64, 0.5f), {1, 4, 8, 8})},
                           {"timestep", Tensor::from(std::vector<int64_t>{7}, {1})},
                           {"encoder_hidden_states", Tensor::from(std::vector<float>(16 * 8, 0.1f), {1, 16, 8})},
                           {"controlnet_cond", Tensor::from(std::vector<float>(3 * 256, 0.3f), {1, 3, 16, 16})}});
  for (const auto& [name, map] : said.items())
    for (const float value : map.to_vector<float>()) ASSERT_EQ(value, 0) << name;
}

TEST_F(TrainingOfLatents, ATrainedControlNetIsAPipeline) {
  train(arguments("text-to-image-control", {"--train_batch_size", "2"}));
  EXPECT_EQ(read_json(out() / kPipelineIndexName)["_class_name"], "StableDiffusionControlNetPipeline");
  const SafetensorsFile weights = SafetensorsFile::open(out() / "controlnet" / "diffusion_pytorch_model.safetensors");
  const TensorView* const first = weights.find("controlnet_down_blocks.0.weight");
  ASSERT_TRUE(first);
  EXPECT_TRUE(
      std::any_of(first->bytes.begin(), first->bytes.end(), [](auto byte) { return byte != decltype(byte){}; }));
  const auto pipeline = make_pipeline("text-to-image", out().string());
  TaskOptions options;
  for (const auto& [name, value] : {std::pair("num_inference_steps", 1), {"height", 16}, {"width", 16}, {"seed", 1}})
    options.set(name, int64_t{value});
  options.set("control_image", (pictures() / "0.png").string());
  const auto results = run_pipeline(*pipeline, {TextInput("a dog")}, options);
  EXPECT_EQ(std::get<std::vector<Picture>>(results.at(0)).at(0).width, 16);
}

}  // namespace
}  // namespace transom
