// SPDX-License-Identifier: Apache-2.0
// Whole pictures and their latents against diffusers' pipelines (tests/golden/make/diffusion_pipelines.py), and hostile
// directories.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/picture_pixels.h"
#include "work/pipelines/diffusion/stable_diffusion.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/pipeline.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

const fs::path kFolder = test::golden_folder() / "diffusion";

// A pipeline of the parts of `base`, but for those that lie in `name` itself.
void assemble(const fs::path& to, const std::string& name, const std::string& base) {
  const auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  if (!base.empty()) fs::copy(kFolder / base / "model", to, copy);
  fs::copy(kFolder / name / "model", to, copy);
}

PictureRequest request_of(const Json& run, const PictureModel& model, const fs::path& folder) {
  TaskOptions options;
  TaskParameters parameters = picture_parameters();
  for (TaskParameter& parameter : changed_picture_parameters()) parameters.push_back(std::move(parameter));
  const bool starts = run.contains("start"), masked = run.contains("mask");
  for (const auto& [name, value] : run.items())
    if (const TaskParameter* parameter = find_parameter(parameters, name))
      options.set(name, value_of_json(*parameter, value));
  if (run.contains("control")) options.set("control_image", (kFolder / "mask.png").string());
  PictureRequest request = picture_request(run["prompt"].get<std::string>(), options, model.defaults(starts, masked));
  for (LoraFile& lora : request.loras) lora.path = (folder / lora.path).string();
  for (WordFile& word : request.words) word.path = (folder / word.path).string();
  if (masked) request.mask = read_image(kFolder / "mask.png");
  if (!starts) return request;
  request.start = read_image(kFolder / "start.png");
  request.height = run.value("height", request.start->height);
  request.width = run.value("width", request.start->width);
  return request;
}

void expect_picture(const Picture& picture, const float* pixels, const Tensor& colours) {
  EXPECT_EQ(picture.height, colours.dim(1));
  EXPECT_EQ(picture.width, colours.dim(2));
  const auto& values = std::get<std::vector<uint8_t>>(picture.values);
  size_t other = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double distance = std::abs(static_cast<double>(values[i]) - static_cast<double>(pixels[i]));
    ASSERT_LE(distance, 2) << i;
    other += distance > 0 ? 1 : 0;
  }
  EXPECT_LE(other, values.size() / 20);  // roundings that fell to the other side
}

PictureRequest with_one_step(PictureRequest request) {
  request.steps = 1;
  request.strength = 1;
  return request;
}

void expect_pictures(const std::string& name, const std::string& base = "") {
  const test::TemporaryFolder made;
  const fs::path folder = kFolder / name;
  assemble(fs::path(made.path()), name, base);
  const Json runs = read_json(folder / "runs.json")["runs"];
  const NamedTensors expected = load_inputs(folder / "expected.safetensors");
  const std::unique_ptr<PictureModel> loaded = load_picture_model(PipelineDirectory(fs::path(made.path())), {});
  const PictureModel& model = *loaded;
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(runs[i].dump());
    const PictureRequest request = request_of(runs[i], model, folder);
    // Puts the files of the request in place, or takes those of the last one away.
    if (!request.loras.empty() || !request.words.empty() || i > 0) model.draw(with_one_step(request));
    const Latents latents = model.latents(request);
    const Tensor golden = expected.at("latents." + std::to_string(i));
    ASSERT_EQ(latents.shape, golden.shape());
    const std::vector<float> numbers = golden.to_vector<float>();
    const auto bound = runs[i]["atol"].get<double>();  // of float32 and what the steps make of it
    for (size_t k = 0; k < numbers.size(); ++k) ASSERT_NEAR(latents.values[k], numbers[k], bound) << k;
    if (!expected.find("pictures." + std::to_string(i)).defined()) continue;
    const Tensor colours = cast(expected.at("pictures." + std::to_string(i)), DType::kFloat32);
    const std::vector<float> pixels = colours.to_vector<float>();
    const std::vector<Picture> drawn = model.pictures(latents);
    ASSERT_EQ(static_cast<int64_t>(drawn.size()), colours.dim(0));
    for (size_t b = 0; b < drawn.size(); ++b)
      expect_picture(drawn[b], pixels.data() + b * pixels.size() / drawn.size(), colours);
  }
}

TEST(StableDiffusion, DrawsThePicturesOfDiffusersByPndm) { expect_pictures("sd-pndm"); }
TEST(StableDiffusion, DrawsThePicturesOfDiffusersByEulersAncestralSteps) { expect_pictures("sd-euler"); }
TEST(StableDiffusion, DrawsOverMasksThatTheNetworkSees) { expect_pictures("sd-inpaint", "sd-pndm"); }
TEST(StableDiffusion, ChangesAPictureAsATextSays) { expect_pictures("sd-instruct", "sd-pndm"); }
TEST(StableDiffusion, DrawsThePicturesOfDiffusersOfLatentConsistency) { expect_pictures("lcm", "sd-pndm"); }
TEST(StableDiffusion, DrawsThePicturesOfDiffusersByTheTwoTextsOfXl) { expect_pictures("sdxl"); }
TEST(StableDiffusion, DrawsThePicturesOfDiffusersByTheRefinerOfXl) { expect_pictures("sdxl-refiner", "sdxl"); }
TEST(StableDiffusion, DrawsWhatAControlNetSees) { expect_pictures("sd-controlnet", "sd-pndm"); }
TEST(StableDiffusion, DrawsWhatAControlNetOfXlSees) { expect_pictures("sdxl-controlnet", "sdxl"); }
TEST(FlowPictures, DrawsThePicturesOfDiffusersByFlux) { expect_pictures("flux"); }
TEST(FlowPictures, DrawsThePicturesOfDiffusersByFluxWithoutGuidance) { expect_pictures("flux-schnell", "flux"); }
TEST(FlowPictures, DrawsThePicturesOfDiffusersByThreeTexts) { expect_pictures("sd3"); }
TEST(FlowPictures, DrawsThePicturesOfDiffusersByTwoTexts) { expect_pictures("sd3-two-texts", "sd3"); }
TEST(StableDiffusion, AddsLora) { expect_pictures("sd-lora", "sd-euler"); }
TEST(StableDiffusion, KnowsLearnedWords) { expect_pictures("sd-words", "sd-pndm"); }
TEST(StableDiffusion, KnowsLearnedWordsOfTheTwoTextsOfXl) { expect_pictures("sdxl-words", "sdxl"); }
TEST(FlowPictures, AddsLoraToFlux) { expect_pictures("flux-lora", "flux"); }
TEST(FlowPictures, AddsLoraToThreeTexts) { expect_pictures("sd3-lora", "sd3"); }

TaskOptions given_options(const Pipeline& pipeline, const Json& options) {
  TaskOptions given;
  for (const auto& [name, value] : options.items())
    given.set(name, value_of_json(*find_parameter(pipeline.parameters(), name), value));
  return given;
}

TEST(StableDiffusion, IsATask) {
  const auto pipeline = make_pipeline("text-to-image", (kFolder / "sd-pndm" / "model").string());
  const TaskOptions given = given_options(
      *pipeline, {{"num_inference_steps", 2}, {"height", 16}, {"width", 24}, {"seed", 1}, {"scheduler", "ddim"}});
  const std::vector<TaskResult> results = run_pipeline(*pipeline, {TextInput("a cat"), TextInput("a dog")}, given);
  ASSERT_EQ(results.size(), 2u);
  const auto& pictures = std::get<std::vector<Picture>>(results[0]);
  ASSERT_EQ(pictures.size(), 1u);
  EXPECT_EQ(pictures[0].width, 24);
  EXPECT_EQ(pictures[0].height, 16);
  EXPECT_NE(std::get<std::vector<Picture>>(results[1])[0].values, pictures[0].values);
  // The same seed, the same picture.
  const auto again = run_pipeline(*pipeline, {TextInput("a cat")}, given);
  EXPECT_EQ(std::get<std::vector<Picture>>(again[0])[0].values, pictures[0].values);
}

TEST(Unconditional, DrawsThePicturesOfDiffusersWithoutAText) {
  const fs::path folder = kFolder / "ddpm";
  const auto pipeline = make_pipeline("text-to-image", (folder / "model").string());
  const Json runs = read_json(folder / "runs.json")["runs"];
  const NamedTensors expected = load_inputs(folder / "expected.safetensors");
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(runs[i].dump());
    const auto results = run_pipeline(*pipeline, {TextInput("")}, given_options(*pipeline, runs[i]));
    const auto& drawn = std::get<std::vector<Picture>>(results[0]);
    const Tensor colours = cast(expected.at("pictures." + std::to_string(i)), DType::kFloat32);
    const std::vector<float> pixels = colours.to_vector<float>();
    ASSERT_EQ(static_cast<int64_t>(drawn.size()), colours.dim(0));
    for (size_t b = 0; b < drawn.size(); ++b)
      expect_picture(drawn[b], pixels.data() + b * pixels.size() / drawn.size(), colours);
  }
  EXPECT_NE(test::message_of([&] { run_pipeline(*pipeline, {TextInput("a cat")}, {}); }).find("without a text"),
            std::string::npos);
}

TEST(StableDiffusion, RefusesWhatNoRunCanHave) {
  const auto pipeline = make_pipeline("text-to-image", (kFolder / "sd-pndm" / "model").string());
  const auto message = [&](const char* name, TaskOptions::Value value) {
    TaskOptions wrong;
    wrong.set(name, std::move(value));
    return test::message_of([&] { run_pipeline(*pipeline, {TextInput("a cat")}, wrong); });
  };
  EXPECT_NE(message("height", int64_t{20}).find("height"), std::string::npos);
  EXPECT_NE(message("width", int64_t{1} << 40).find("width"), std::string::npos);
  EXPECT_NE(message("num_inference_steps", int64_t{0}).find("num_inference_steps"), std::string::npos);
  EXPECT_NE(message("num_images_per_prompt", int64_t{1} << 40).find("num_images_per_prompt"), std::string::npos);
  EXPECT_NE(message("guidance_scale", std::nan("")).find("guidance_scale"), std::string::npos);
  EXPECT_NE(message("guidance_rescale", 3.0).find("guidance_rescale"), std::string::npos);
  EXPECT_NE(message("eta", -1.0).find("eta"), std::string::npos);
  EXPECT_NE(message("scheduler", std::string("fast")).find("scheduler"), std::string::npos);
  EXPECT_NE(message("lora", std::string("/nowhere.safetensors")).find("nowhere"), std::string::npos);
  EXPECT_NE(message("lora_scale", 2.0).find("lora_scale"), std::string::npos);
}

TEST(StableDiffusion, TimestepsOfARunsOwnAreThoseThatItSees) {
  const auto pipeline = make_pipeline("text-to-image", (kFolder / "sd-euler" / "model").string());
  const auto drawn = [&](Json options) {
    options.update({{"seed", 3}, {"scheduler", "ddpm"}, {"height", 16}, {"width", 16}});
    const std::vector<TaskResult> results =
        run_pipeline(*pipeline, {TextInput("a")}, given_options(*pipeline, options));
    return std::get<std::vector<Picture>>(results[0])[0].values;
  };
  const auto refused = [&](const Json& options) { return test::message_of([&] { drawn(options); }); };
  EXPECT_EQ(drawn({{"timesteps", {999, 499}}}), drawn({{"num_inference_steps", 2}}));
  EXPECT_NE(drawn({{"timesteps", {999, 299}}}), drawn({{"num_inference_steps", 2}}));
  EXPECT_NE(refused({{"sigmas", {1.0, 0.5}}}).find("sigmas: the scheduler takes none"), std::string::npos);
  EXPECT_NE(refused({{"sigmas", {1.0}}, {"timesteps", {1}}}).find("found both"), std::string::npos);
  EXPECT_NE(refused({{"timesteps", Json::array()}}).find("timesteps"), std::string::npos);
}

TEST(StableDiffusion, AControlNetNeedsAPictureAndOthersTakeNone) {
  const test::TemporaryFolder made;
  const fs::path path = fs::path(made.path());
  assemble(path, "sd-controlnet", "sd-pndm");
  const Json control = (kFolder / "mask.png").string();
  const auto refused = [](const fs::path& directory, const Json& options) {
    const auto pipeline = make_pipeline("text-to-image", directory.string());
    return test::message_of([&] { run_pipeline(*pipeline, {TextInput("a")}, given_options(*pipeline, options)); });
  };
  EXPECT_NE(refused(path, Json::object()).find("control_image is missing"), std::string::npos);
  EXPECT_NE(refused(path, {{"guess_mode", true}}).find("without a control_image"), std::string::npos);
  EXPECT_NE(refused(path, {{"control_image", control}, {"control_guidance_start", 1}}).find("control_guidance_start"),
            std::string::npos);
  EXPECT_NE(refused(path, {{"control_image", control}, {"controlnet_conditioning_scale", 1e9}}).find("scale"),
            std::string::npos);
  EXPECT_NE(refused(kFolder / "sd-pndm" / "model", {{"control_image", control}}).find("no ControlNet"),
            std::string::npos);
}

TEST(StableDiffusion, SaysWhereEtaHasNoEffect) {
  const auto said = [](const char* scheduler) {
    const auto pipeline = make_pipeline("text-to-image", (kFolder / "sd-pndm" / "model").string());
    const Json options{{"num_inference_steps", 1}, {"height", 16}, {"width", 16}, {"eta", 0.5}};
    TaskOptions given = given_options(*pipeline, options);
    given.set("scheduler", std::string(scheduler));
    const test::KeptLog log;
    run_pipeline(*pipeline, {TextInput("a cat")}, given);
    return log.has("eta = 0.5 has no effect");
  };
  EXPECT_TRUE(said("euler"));
  EXPECT_FALSE(said("ddim"));
}

TEST(StableDiffusion, ChangesAPictureByATask) {
  const auto pipeline = make_pipeline("image-to-image", (kFolder / "sd-pndm" / "model").string());
  const Json options{{"prompt", "a cat"}, {"num_inference_steps", 4}, {"strength", 0.5}, {"seed", 1}};
  const ImageInput input((kFolder / "start.png").string());
  const auto results = run_pipeline(*pipeline, {input}, given_options(*pipeline, options));
  const Picture& picture = std::get<std::vector<Picture>>(results[0]).at(0);
  EXPECT_EQ(picture.width, 40);
  EXPECT_EQ(picture.height, 32);
  const auto refused = [&](const Json& wrong) {
    return test::message_of([&] { run_pipeline(*pipeline, {input}, given_options(*pipeline, wrong)); });
  };
  EXPECT_NE(refused(Json::object()).find("prompt"), std::string::npos);
  EXPECT_NE(refused({{"prompt", ""}, {"strength", 0}}).find("strength"), std::string::npos);
  EXPECT_NE(refused({{"prompt", ""}, {"height", 64}}).find("height"), std::string::npos);
}

TEST(StableDiffusion, ReadsPromptsOfAnyLength) {
  const StableDiffusion model(PipelineDirectory(kFolder / "sd-pndm" / "model"), {});
  PictureRequest request;
  for (int i = 0; i < 100000; ++i) request.prompt += "word ";
  request.height = request.width = 16;
  request.steps = 1;
  EXPECT_EQ(model.latents(request).values.size(), 4u * 8 * 8);
}

std::string refusal(const std::string& index) {
  const test::TemporaryFolder folder;
  write_file(fs::path(folder.path()) / "model_index.json", index);
  return test::message_of([&] { make_pipeline("text-to-image", fs::path(folder.path()).string()); });
}

void expect_a_line(const std::string& message, const std::string& about) {
  EXPECT_FALSE(message.empty()) << about;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(StableDiffusion, RefusesHostileIndexesInALine) {
  for (const char* index :
       {"", "[]", "{}", "{\"_class_name\": 3}", R"({"_class_name": "FluxFillPipeline"})",
        R"({"_class_name": "FluxPipeline"})", R"({"_class_name": "StableDiffusionPipeline"})",
        R"({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers"]})",
        R"({"_class_name": "StableDiffusionPipeline", "../unet": ["diffusers", "UNet2DConditionModel"]})",
        R"({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet3DConditionModel"]})",
        R"({"_class_name": "StableDiffusionPipeline", "scheduler": ["diffusers", "PNDMScheduler"]})"})
    expect_a_line(refusal(index), index);
  EXPECT_NE(refusal(R"({"_class_name": "FluxFillPipeline"})").find("FluxFillPipeline"), std::string::npos);
}

// A field of a part of a whole pipeline that is not what it should be.
TEST(StableDiffusion, RefusesHostilePartsInALine) {
  struct Case {
    const char *file, *field;
    Json value;
  };
  const Case cases[] = {{"vae/config.json", "latent_channels", int64_t{1} << 40},
                        {"vae/config.json", "scaling_factor", 0},
                        {"vae/config.json", "block_out_channels", std::vector<int>(60, 4)},
                        {"unet/config.json", "in_channels", 5},
                        {"unet/config.json", "_class_name", "AutoencoderKL"},
                        {"scheduler/scheduler_config.json", "num_train_timesteps", int64_t{1} << 50},
                        {"scheduler/scheduler_config.json", "_class_name", "FastScheduler"},
                        {"text_encoder/config.json", "max_position_embeddings", int64_t{1} << 40}};
  for (const Case& each : cases) {
    const test::TemporaryFolder folder;
    const fs::path path = fs::path(folder.path());
    assemble(path, "sd-pndm", "");
    Json config = read_json(path / each.file);
    config[each.field] = each.value;
    write_file(path / each.file, config.dump());
    expect_a_line(test::message_of([&] { make_pipeline("text-to-image", path.string()); }), each.field);
  }
  // Huge pictures by the configuration: refused before memory is taken.
  const test::TemporaryFolder folder;
  const fs::path path = fs::path(folder.path());
  assemble(path, "sd-pndm", "");
  Json config = read_json(path / "unet/config.json");
  config["sample_size"] = int64_t{1} << 60;
  write_file(path / "unet/config.json", config.dump());
  expect_a_line(
      test::message_of([&] { run_pipeline(*make_pipeline("text-to-image", path.string()), {TextInput("a")}, {}); }),
      "sample_size");
}

TEST(PicturePixels, NumbersThatAreNoneAreBlack) {
  const Tensor sample = Tensor::from(std::vector<float>{std::nanf(""), 3, -3, 0}, {1, 1, 2, 2});
  EXPECT_EQ(std::get<std::vector<uint8_t>>(picture_of_sample(sample).values), (std::vector<uint8_t>{0, 255, 0, 128}));
}

}  // namespace
}  // namespace transom
