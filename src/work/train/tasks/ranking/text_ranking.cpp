// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/ranking/text_ranking.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/counted.h"
#include "transom/ops.h"
#include "work/train/step/objective.h"
#include "work/train/tasks/ranking/ranking_rows.h"

namespace transom {
namespace {

constexpr const char* kUsualRankingLoss = "BinaryCrossEntropyLoss";

class RankingObjective : public Objective {
 public:
  RankingObjective(RankingForm form, std::shared_ptr<const RankingLoss> loss) : form_(form), loss_(std::move(loss)) {}

  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors*) const override {
    NamedTensors pairs;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "places" && name != "listed" && name != "labels") pairs.set(name, tensor);
    const Tensor logits = cast(pass.model.forward(pairs, pass.context).at("logits"), DType::kFloat32);
    const Tensor places = inputs.at("places");
    const Tensor scores = form_ == RankingForm::kClasses ? logits : gather(reshape(logits, {-1}), places, 0);
    return (*loss_)(RankingBatch{
        .logits = scores, .listed = inputs.at("listed"), .labels = inputs.find("labels"), .context = pass.context});
  }

 private:
  RankingForm form_;
  std::shared_ptr<const RankingLoss> loss_;
};

// What sentence-transformers has beside the weights of a cross-encoder.
void copy_settings(const std::filesystem::path& base, const std::filesystem::path& directory) {
  for (const char* name : {"config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"})
    if (path_exists(base / name)) write_file(directory / name, read_file(base / name));
}

}  // namespace

void prepare_text_ranking(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  if (script.prompts) fail(ErrorKind::kUnsupported, "--prompts: is for sentence-embedding; write it into the queries");
  if (script.train_file && script.train_file->starts_with('{'))
    fail(ErrorKind::kUnsupported, "--train_file: text-ranking reads one set of rows, found an object of several");
  if (script.batch_sampler != "batch_sampler")
    fail(ErrorKind::kUnsupported, "--batch_sampler: {} is for sentence-embedding", script.batch_sampler);
  const std::string name = script.loss.value_or(kUsualRankingLoss);
  const RankingLossRecord& record = ranking_loss_named(name);
  LossOptions options(
      script.loss_kwargs.text.empty() ? Json::object() : parse_json(script.loss_kwargs.text, "--loss_kwargs"), name);
  const std::shared_ptr<const RankingLoss> loss = record.make(options);
  options.finish();

  std::string reads;
  std::vector<RankingRow> train, held;
  if (files.train) train = read_ranking_rows(*files.train, record, &reads);
  if (files.validation) held = read_ranking_rows(*files.validation, record, &reads);
  LoadOptions load = load_options(arguments, "text-classification");
  if (record.form == RankingForm::kClasses) {
    float most = 0;
    for (const auto* rows : {&train, &held})
      for (const RankingRow& row : *rows) most = std::max(most, row.labels[0]);
    // The classes of a model that has some stay, also those that no row is of.
    const Json config = read_json(std::filesystem::path(script.model_name_or_path) / "config.json");
    const auto named = static_cast<int64_t>(config.value("id2label", Json::object()).size());
    load.num_labels = std::max(named, static_cast<int64_t>(most) + 1);
  } else {
    load.num_labels = 1;
  }
  const std::string base = script.model_name_or_path;
  setup.model = load_model(arguments, base, load);
  const auto encoder = std::make_shared<const TextEncoder>(arguments, *setup.model, std::nullopt);
  const std::optional<int64_t> negatives = loss->negatives_of_batch();
  const auto data_of = [&](std::vector<RankingRow> rows) {
    return ranking_data(std::move(rows), record, negatives, arguments.training.seed, encoder);
  };
  setup.reads = fmt::format("{}; {}", reads, counted(train.size(), "row"));
  if (!train.empty()) setup.train = data_of(std::move(train));
  if (!held.empty()) setup.validation = data_of(std::move(held));
  setup.objective = std::make_shared<RankingObjective>(record.form, loss);
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  encoder->save_into(setup);
  setup.save_tokenizer = [save = setup.save_tokenizer, base](const std::string& directory) {
    save(directory);
    copy_settings(base, directory);
  };
}

}  // namespace transom
