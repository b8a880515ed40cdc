// SPDX-License-Identifier: Apache-2.0
// textual_inversion of diffusers (Gal et al., 2022): the vectors of a new word are learned by pictures of one thing,
// and all else stays as it is. V words that were there, n vectors, D their width.
#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/checkpoint/safetensors.h"
#include "files/config/config.h"
#include "models/diffusion/learned_words.h"
#include "models/replace_value.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/setup/freeze.h"
#include "work/train/tasks/diffusion/denoising_objective.h"
#include "work/train/tasks/diffusion/latent_training.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"

namespace transom {
namespace {

constexpr int64_t kUsualRepeats = 100, kMostVectors = 70;
constexpr const char* kLearnedFile = "learned_embeds.safetensors";

// The sentences of the script, of things and of styles.
constexpr const char* kOfThings[] = {
    "a photo of a {}",         "a rendering of a {}",      "a cropped photo of the {}", "the photo of a {}",
    "a photo of a clean {}",   "a photo of a dirty {}",    "a dark photo of the {}",    "a photo of my {}",
    "a photo of the cool {}",  "a close-up photo of a {}", "a bright photo of the {}",  "a cropped photo of a {}",
    "a photo of the {}",       "a good photo of the {}",   "a photo of one {}",         "a close-up photo of the {}",
    "a rendition of the {}",   "a photo of the clean {}",  "a rendition of a {}",       "a photo of a nice {}",
    "a good photo of a {}",    "a photo of the nice {}",   "a photo of the small {}",   "a photo of the weird {}",
    "a photo of the large {}", "a photo of a cool {}",     "a photo of a small {}"};
constexpr const char* kOfStyles[] = {"a painting in the style of {}",         "a rendering in the style of {}",
                                     "a cropped painting in the style of {}", "the painting in the style of {}",
                                     "a clean painting in the style of {}",   "a dirty painting in the style of {}",
                                     "a dark painting in the style of {}",    "a picture in the style of {}",
                                     "a cool painting in the style of {}",    "a close-up painting in the style of {}",
                                     "a bright painting in the style of {}",  "a cropped painting in the style of {}",
                                     "a good painting in the style of {}",    "a close-up painting in the style of {}",
                                     "a rendition in the style of {}",        "a nice painting in the style of {}",
                                     "a small painting in the style of {}",   "a weird painting in the style of {}",
                                     "a large painting in the style of {}"};

Parameter& token_vectors(const Model& encoder) {
  for (const auto& parameter : encoder.parameters())
    if (parameter->name.ends_with("embeddings.token_embedding.weight")) return *parameter;
  fail("the text encoder: has no vectors of tokens");
}

// The loss by the states of texts with the word.
class WordObjective : public DenoisingObjective {
 public:
  // `kept` [V, D]: the vectors that stay.
  WordObjective(std::string prediction_type, const ScriptArguments& script, std::shared_ptr<const Model> unet,
                Tensor kept)
      : DenoisingObjective(std::move(prediction_type), script), unet_(std::move(unet)), kept_(std::move(kept)) {}

  void updated(const Model& model, int64_t /*steps*/) override {
    const NoGradient fixed;
    Parameter& vectors = token_vectors(model);
    const int64_t V = kept_.dim(0);
    const Tensor learned = slice(vectors.value.detach(), 0, V, vectors.value.dim(0));
    replace_value(vectors, concatenate({kept_, learned}, 0).detach());
  }

 protected:
  Tensor said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
              ForwardContext& context) const override {
    const Tensor ids = cast(given.at(kTextIds), DType::kInt64);
    const Tensor states = pass.model.forward({{"input_ids", ids}}, context).at("last_hidden_state");
    const NamedTensors seen{{"sample", noisy}, {"timestep", given.at(kTimestep)}, {"encoder_hidden_states", states}};
    return cast(unet_->forward(seen, {.computing = context.computing}).at("sample"), DType::kFloat32);
  }

 private:
  std::shared_ptr<const Model> unet_;
  Tensor kept_;
};

void expect_word(const ScriptArguments& script) {
  if (!script.train_dir) fail(ErrorKind::kUsage, "--train_data_dir: a folder of pictures is missing");
  if (!script.placeholder_token || script.placeholder_token->empty())
    fail(ErrorKind::kUsage, "--placeholder_token: the new word is missing");
  if (!script.initializer_token) fail(ErrorKind::kUsage, "--initializer_token: the word that it begins as is missing");
  if (script.num_vectors < 1 || script.num_vectors > kMostVectors)
    fail(ErrorKind::kUsage, "--num_vectors: expected 1 to {}, found {}", kMostVectors, script.num_vectors);
  if (script.train_file || script.validation_file || script.validation_dir || script.max_train_samples)
    fail(ErrorKind::kUsage,
         "--train_file, --validation_file, --validation_dir, --max_train_samples: textual-inversion trains on all "
         "pictures of --train_data_dir, and evaluates nothing; leave them out");
  if (script.use_ema || script.proportion_empty_prompts > 0)
    fail(ErrorKind::kUsage, "--use_ema, --proportion_empty_prompts: have no effect on a word; leave them out");
  if (script.save_as_full_pipeline)
    fail(ErrorKind::kUnsupported, "--save_as_full_pipeline: draw with `--textual_inversion` and the base's pipeline");
}

// Beside the vectors of the encoder, n that begin as that of a word; gives what stays.
Tensor add_vectors(Model& encoder, const Tokenizer& tokenizer, const ScriptArguments& script) {
  const auto first = tokenizer.encode(*script.initializer_token, std::nullopt, {.add_special_tokens = false}).ids;
  if (first.size() != 1)
    fail(ErrorKind::kUsage, "--initializer_token: expected one token, found {} of {}", first.size(),
         quoted(*script.initializer_token, 80));
  if (tokenizer.token_to_id(*script.placeholder_token))
    fail(ErrorKind::kUsage, "--placeholder_token: the tokenizer has {} already", quoted(*script.placeholder_token, 80));
  const NoGradient fixed;
  for (const auto& parameter : encoder.parameters()) parameter->value.set_requires_grad(false);
  Parameter& vectors = token_vectors(encoder);
  const Tensor kept = vectors.value.detach();
  if (first[0] >= kept.dim(0))
    fail("the text encoder: has {} vectors, and the tokenizer the token {}", kept.dim(0), first[0]);
  std::vector<Tensor> all{kept};
  for (int64_t i = 0; i < script.num_vectors; ++i) all.push_back(slice(kept, 0, first[0], first[0] + 1));
  vectors.value = concatenate(all, 0).detach();
  vectors.value.set_requires_grad();
  set_field(encoder.config(), "vocab_size", vectors.value.dim(0));
  return kept;
}

void write_word(const std::string& directory, const Model& encoder, const std::string& token, int64_t first) {
  const NoGradient fixed;
  const Tensor& all = token_vectors(encoder).value;
  const Tensor learned = cast(slice(all, 0, first, all.dim(0)), DType::kFloat32);
  const std::vector<float> values = learned.to_vector<float>();
  const TensorView view{DType::kFloat32, learned.shape(), std::as_bytes(std::span(values)), nullptr};
  write_safetensors(fs::path(directory) / kLearnedFile, {{token, view}}, {{"format", "pt"}});
}

}  // namespace

void textual_inversion_defaults(TrainArguments& arguments) {
  latent_training_defaults(arguments, {.learning_rate = 1e-4, .rows = 16, .epochs = 100});
  set_default(arguments, "max_grad_norm", arguments.training.max_grad_norm, TrainingArguments().max_grad_norm, 0.0);
}

void prepare_textual_inversion(const TrainArguments& arguments, const TaskFiles& /*files*/, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  expect_word(script);
  LatentTraining training(arguments, Resampling::kBicubic, setup, LatentTraining::Trains::kWord);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(training.directory().folder("tokenizer", "").string());
  Model& encoder = *setup.model;
  const Tensor kept = add_vectors(encoder, tokenizer, script);
  LearnedTokens word;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < script.num_vectors; ++i) ids.push_back(kept.dim(0) + i);
  word.add(tokenizer, *script.placeholder_token, ids);
  const int64_t places = encoder.config().get_int("max_position_embeddings", 77);
  const int64_t length = std::min(tokenizer.model_max_length().value_or(places), places);
  const auto pictures = training.pictures(true);
  pictures->parts.mirrors = true;
  pictures->parts.squashes = true;
  std::vector<size_t> texts;
  int64_t cut = 0;
  const bool of_style = script.learnable_property == "style";
  for (const char* sentence :
       of_style ? std::span<const char* const>(kOfStyles) : std::span<const char* const>(kOfThings)) {
    std::string text = sentence;
    text.replace(text.find("{}"), 2, *script.placeholder_token);
    bool is_cut = false;
    const Encoding encoded = word.encode(tokenizer, text, length, is_cut);
    cut += is_cut ? 1 : 0;
    texts.push_back(pictures->tokens.size());
    pictures->tokens.emplace_back(encoded.ids.begin(), encoded.ids.end());
  }
  if (cut > 0)
    log(LogLevel::kWarning,
        fmt::format("{} of {} sentences with the word are longer than {} tokens: the rest of them is "
                    "not read",
                    cut, texts.size(), length));
  for (const fs::path& file : images_below(*script.train_dir)) pictures->rows.push_back({.file = file, .texts = texts});
  const auto count = static_cast<int64_t>(pictures->rows.size());
  pictures->count = count * script.repeats.value_or(kUsualRepeats);
  pictures->chosen = [count](const std::vector<int64_t>& asked) {
    std::vector<int64_t> rows;
    for (const int64_t row : asked) rows.push_back(row % count);
    return rows;
  };
  setup.reads = what_is_read({fmt::format("images: files of {}", *script.train_dir)}, {{count, "of the thing"}});
  training.add_data(pictures, true);
  const std::string token = *script.placeholder_token;
  training.finish(std::make_shared<WordObjective>(training.prediction_type(), script, training.frozen_network(), kept),
                  [&encoder, token, first = kept.dim(0)](const std::string& directory) {
                    write_word(directory, encoder, token, first);
                  });
}

}  // namespace transom
