// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/sentence_embedding.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/terminal/log.h"
#include "base/text/counted.h"
#include "files/config/config.h"
#include "models/sentences/sentence_head.h"
#include "models/sentences/text_limit.h"
#include "runtime/distributed/process_group.h"
#include "work/train/loop/samplers.h"
#include "work/train/tasks/sentences/evaluators.h"
#include "work/train/tasks/sentences/file_sets.h"
#include "work/train/tasks/sentences/sentence_data.h"
#include "work/train/tasks/sentences/sentence_objective.h"
#include "work/train/tasks/text/special_tokens.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr const char* kUsualLoss = "CoSENTLoss";   // the library's default
constexpr const char* kSpladeLoss = "SpladeLoss";  // the same of models that give weights of tokens

std::vector<int64_t> dims_of(const std::vector<std::string>& words) {
  std::vector<int64_t> dims;
  for (const std::string& word : words) {
    int64_t dim = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), dim);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size())
      fail(ErrorKind::kUsage, "--matryoshka_dims: expected whole numbers, found {}", quoted(word));
    dims.push_back(dim);
  }
  return dims;
}

std::vector<double> weights_of(const std::vector<std::string>& words) {
  std::vector<double> weights;
  for (const std::string& word : words) {
    double weight = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size())
      fail(ErrorKind::kUsage, "--matryoshka_weights: expected numbers, found {}", quoted(word));
    weights.push_back(weight);
  }
  return weights;
}

// The loss of a set, and what its rows are to have.
struct SetLoss {
  const SentenceLossRecord* record;
  std::shared_ptr<const SentenceLoss> loss;
  RowForm form;
  std::optional<SpladeOptions> splade;
};

// "SparseMarginMSELoss" -> "MarginMSELoss"
std::string loss_within_splade(const Json& name) {
  constexpr std::string_view kPrefix = "Sparse";
  const std::string given = name.is_string() ? name.get<std::string>() : "";
  if (given.empty() || given == kSpladeLoss)
    fail(ErrorKind::kUsage, "--loss_kwargs: loss of SpladeLoss: expected the name of a loss, found {}",
         quoted(dump_json(name)));
  return given.starts_with(kPrefix) ? given.substr(kPrefix.size()) : given;
}

SetLoss loss_of_set(const TrainArguments& arguments, const std::string& set, bool sparse, int64_t width) {
  const ScriptArguments& script = arguments.script;
  std::string name = of_set(script.loss.value_or(sparse ? kSpladeLoss : kUsualLoss), set, "--loss");
  if ((name == kSpladeLoss) != sparse)
    fail(ErrorKind::kUsage, "--loss: expected {}, since {} gives {}, found {}", sparse ? kSpladeLoss : "another loss",
         script.model_name_or_path, sparse ? "weights of tokens" : "vectors of texts", name);
  Json given = script.loss_kwargs.text.empty() ? Json::object() : parse_json(script.loss_kwargs.text, "--loss_kwargs");
  if (!set.empty() && given.contains(set)) given = given[set];
  std::vector<int64_t> dims = dims_of(script.matryoshka_dims);
  std::vector<double> weights = weights_of(script.matryoshka_weights);
  // As the library nests them: the options name the loss within.
  if (name == "MatryoshkaLoss") {
    LossOptions outer(given, name);
    const Json inner = outer.value("loss"), inner_dims = outer.value("matryoshka_dims"),
               inner_weights = outer.value("matryoshka_weights");
    outer.only("n_dims_per_step", -1);
    if (!inner.is_string()) outer.refuse("loss", "the name of a loss");
    name = inner.get<std::string>();
    if (dims.empty() && inner_dims.is_array())
      for (const Json& each : inner_dims) dims.push_back(each.is_number_integer() ? each.get<int64_t>() : 0);
    if (weights.empty() && inner_weights.is_array())
      for (const Json& each : inner_weights) weights.push_back(each.is_number() ? each.get<double>() : 0);
    if (dims.empty()) outer.refuse("matryoshka_dims", "a list of numbers");
    for (const char* own : {"loss", "matryoshka_dims", "matryoshka_weights", "n_dims_per_step"}) given.erase(own);
  }
  SetLoss result;
  if (name == kSpladeLoss) {
    const Json inner = given.is_object() ? given.value("loss", Json("SparseMultipleNegativesRankingLoss")) : Json();
    result.splade = SpladeOptions::of(given);
    name = loss_within_splade(inner);
    if (name == "MultipleNegativesRankingLoss") {  // as the library's for weights of tokens
      if (!given.contains("scale")) given["scale"] = 1;
      if (!given.contains("similarity_fct")) given["similarity_fct"] = "dot_score";
    }
    if (!dims.empty() || !weights.empty())
      fail(ErrorKind::kUsage, "--matryoshka_dims: is not for SpladeLoss, whose vectors have no first numbers");
  }
  result.record = &sentence_loss_named(name);
  LossOptions options(given, name);
  std::unique_ptr<SentenceLoss> loss = result.record->make(options, width, arguments.training.seed);
  options.finish();
  if (!dims.empty()) loss = matryoshka_loss(std::move(loss), std::move(dims), std::move(weights), width);
  else if (!weights.empty()) fail(ErrorKind::kUsage, "--matryoshka_weights: has no effect without --matryoshka_dims");
  if (result.splade) {
    if (loss->mini_batch_size() > 0)
      fail(ErrorKind::kUnsupported, "--loss: SpladeLoss: {} goes in parts; use the loss without Cached", name);
    loss = splade_loss(std::move(loss), *result.splade);
  }
  result.loss = std::move(loss);
  result.form = {.loss = name,
                 .least_columns = result.record->least_columns,
                 .most_columns = result.record->most_columns,
                 .labels = result.record->labels,
                 .classes = given.value("num_labels", int64_t{0}),
                 .width = width};
  return result;
}

VectorRows rows_of(const Predictions& predictions, size_t column) {
  const Predictions::Array* found = find_output(predictions, fmt::format("sentence_embedding_{}", column));
  if (!found || found->shape.size() != 2) return {};
  return {found->shape[0], found->shape[1], found->values};
}

// The vectors of different texts alone, and which of them each row has.
VectorRows without_repeats(const VectorRows& all, const std::vector<int64_t>& texts) {
  VectorRows result{0, all.width, {}};
  for (int64_t row = 0; row < all.rows; ++row)
    if (texts[static_cast<size_t>(row)] == result.rows) {
      const std::vector<float> vector = all.row(row);
      result.values.insert(result.values.end(), vector.begin(), vector.end());
      ++result.rows;
    }
  return result;
}

// What the evaluator of the arguments, or the one that the rows allow, gives of the vectors of a file.
std::function<Metrics(const Predictions&)> evaluator_of(const std::string& asked, const SentenceSet& set,
                                                        SentenceLabels labels, Similarity similarity) {
  const bool scored =
      labels == SentenceLabels::kScore || labels == SentenceLabels::kBinary || labels == SentenceLabels::kMaybeBinary;
  const bool has_scores = scored && !set.labels().empty() && !set.labels()[0].empty() && set.columns() == 2;
  const bool plain = labels == SentenceLabels::kNone;
  std::string name = asked;
  if (name == "auto")
    name = has_scores                    ? "EmbeddingSimilarityEvaluator"
           : plain && set.columns() == 2 ? "InformationRetrievalEvaluator"
           : plain && set.columns() == 3 ? "TripletEvaluator"
                                         : "none";
  const auto expect = [&](bool right, const char* what) {
    if (!right) fail(ErrorKind::kUsage, "--evaluator {}: needs rows with {}", name, what);
  };
  if (name == "EmbeddingSimilarityEvaluator") {
    expect(has_scores, "two texts and a score");
    return [similarity, labels = set.labels()](const Predictions& found) {
      std::vector<float> scores;
      for (const std::vector<float>& label : labels) scores.push_back(label[0]);
      return similarity_metrics(rows_of(found, 0), rows_of(found, 1), scores, similarity);
    };
  }
  if (name == "TripletEvaluator") {
    expect(set.columns() >= 3, "three texts");
    return [similarity](const Predictions& found) {
      return triplet_metrics(rows_of(found, 0), rows_of(found, 1), rows_of(found, 2), similarity);
    };
  }
  if (name == "InformationRetrievalEvaluator") {
    expect(set.columns() >= 2, "a query and a document");
    return [similarity, documents = set.distinct_texts(1)](const Predictions& found) {
      const VectorRows queries = rows_of(found, 0), all = rows_of(found, 1);
      if (all.rows != static_cast<int64_t>(documents.size())) return Metrics();
      std::vector<std::vector<int64_t>> relevant;
      for (const int64_t document : documents) relevant.push_back({document});
      return retrieval_metrics(queries, without_repeats(all, documents), relevant, similarity);
    };
  }
  return [](const Predictions&) { return Metrics(); };
}

// Of the base, with what the arguments say besides.
SentenceModules modules_of(const ScriptArguments& script) {
  const std::filesystem::path base = script.model_name_or_path;
  SentenceModules modules = read_sentence_modules(base);
  if (script.pooling_mode) {
    if (modules.declared)
      fail(ErrorKind::kUsage, "--pooling_mode: {} says how it pools: leave it out", (base / "modules.json").string());
    modules.pooling = {*pooling_mode_of(*script.pooling_mode)};
  }
  // A masked-language model without modules becomes SPLADE's where its loss is asked for, as in the library.
  if (!modules.declared && script.loss && script.loss->find(kSpladeLoss) != std::string::npos) {
    if (script.pooling_mode)
      fail(ErrorKind::kUsage, "--pooling_mode: SpladeLoss is of weights of tokens; leave it out");
    modules.sparse.emplace();
    modules.similarity = Similarity::kDot;
  }
  if (script.max_seq_length) modules.max_seq_length = script.max_seq_length;
  return modules;
}

int64_t updates_of(const TrainingData& data, const TrainingArguments& training) {
  const auto batches = static_cast<int64_t>(data.epoch_batches(0, training.per_device_train_batch_size).size());
  return duration_of(batches / process_count(), training.gradient_accumulation_steps, training.num_train_epochs,
                     training.max_steps)
      .updates;
}

// The library draws the batches of evaluations too, the same each time: they say which rows are negatives.
FileSet as_drawn(const FileSet& set, int64_t seed) {
  return {set.name, set.data.select(random_order(set.data.size(), seed, 0))};
}

// The rows of the one set of `sets`, as those of this number in training.
TrainingData rows_to_evaluate(const std::shared_ptr<const std::vector<SentenceSet>>& sets, size_t number) {
  TrainingData data;
  data.rows = (*sets)[0].rows();
  data.batch = [sets, number](const std::vector<int64_t>& indices) { return (*sets)[0].batch(number, indices); };
  return data;
}

[[noreturn]] void refuse_set(const std::string& given, const std::vector<std::string>& names) {
  fail(ErrorKind::kUsage,
       "--validation_file: expected an object with the name of a set of --train_file ({}) and its file, found {}",
       fmt::join(names, ", "), quoted(given));
}

}  // namespace

void sentence_defaults(TrainArguments& arguments) {
  // As the library: batches of several processes are whole.
  if (process_count() > 1) arguments.training.dataloader_drop_last = true;
}

void prepare_sentence_embedding(const TrainArguments& arguments, const TaskFiles& /*files*/, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::filesystem::path base = script.model_name_or_path;
  const SentenceModules modules = modules_of(script);
  const std::vector<FileSet> train = file_sets(script.train_file, "--train_file", script, script.max_train_samples),
                             held = file_sets(script.validation_file, "--validation_file", script,
                                              script.max_eval_samples);
  if (held.size() > 1)
    fail(ErrorKind::kUsage, "--validation_file: expected one set of rows to evaluate on, found {}", held.size());
  const std::string folder = (modules.transformer.empty() ? base : base / modules.transformer).string();
  setup.model = load_model(arguments, folder, load_options(arguments, modules.task()));
  const int64_t states = setup.model->config().get_int(modules.sparse ? "vocab_size" : "hidden_size", 0);
  SentenceHead head(modules, states);
  const Tokenizer tokenizer =
      Tokenizer::from_pretrained(script.tokenizer_name.value_or(folder), {.do_lower_case = modules.do_lower_case});
  const SentenceTokens tokens{tokenizer, longest_sentence(modules, *setup.model, tokenizer), script.pad_to_multiple_of,
                              modules.include_prompt, setup.model->config().get_int("vocab_size", 0)};

  std::vector<std::string> names;
  for (const FileSet& set : train) names.push_back(set.name);
  const SentencePrompts prompts(script.prompts, names);
  std::vector<SentenceObjective::Set> sets;
  std::vector<SentenceSet> rows;
  std::vector<std::string> columns, parts;
  int64_t count = 0;
  const auto add = [&](const FileSet& file, const SetLoss& loss) {
    const SentenceRows read(file.data, loss.form);
    for (size_t i = 0; i < read.columns(); ++i) columns.push_back(read.column_name(i));
    parts.push_back((file.name.empty() ? "" : file.name + ": ") + read.reads());
    return std::make_shared<const std::vector<SentenceSet>>(
        std::vector<SentenceSet>{SentenceSet(file.name, read, tokens, prompts)});
  };
  std::optional<SetLoss> first;
  for (const FileSet& file : train) {
    const SetLoss loss = loss_of_set(arguments, file.name, modules.sparse.has_value(), head.width());
    rows.push_back((*add(file, loss))[0]);
    count += rows.back().rows();
    sets.push_back({rows.back().columns(), loss.loss, loss.splade});
    if (!first || (!held.empty() && held[0].name == file.name)) first = loss;
  }
  if (!held.empty()) {
    if (!first) first = loss_of_set(arguments, held[0].name, modules.sparse.has_value(), head.width());
    const auto place = std::find(names.begin(), names.end(), held[0].name);
    if (!train.empty() && place == names.end()) refuse_set(*script.validation_file, names);
    const auto set = add(as_drawn(held[0], arguments.training.seed), *first);
    const size_t number = train.empty() ? 0 : static_cast<size_t>(place - names.begin());
    if (train.empty()) sets.push_back({(*set)[0].columns(), first->loss, first->splade});
    if ((*set)[0].columns() != sets[number].columns)
      fail("{}: expected {} columns of texts, as in the rows to train on, found {}", held[0].data.name(),
           sets[number].columns, (*set)[0].columns());
    setup.validation = rows_to_evaluate(set, number);
    setup.compute_metrics = evaluator_of(script.evaluator, (*set)[0], first->form.labels, modules.similarity);
    parts.push_back(counted(static_cast<size_t>((*set)[0].rows()), "row") + " to evaluate on");
  } else {
    setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  }
  prompts.expect_columns(columns);
  if (!train.empty()) {
    if (script.batch_sampler == "group_by_label" && first->form.labels != SentenceLabels::kClass)
      fail(ErrorKind::kUsage, "--batch_sampler group_by_label: needs rows with classes, which {} does not take",
           first->form.loss);
    setup.train = training_data(std::make_shared<const std::vector<SentenceSet>>(std::move(rows)),
                                {.batch_sampler = script.batch_sampler,
                                 .multi_dataset_batch_sampler = script.multi_dataset_batch_sampler,
                                 .seed = arguments.training.sampling_seed(),
                                 .drop_last = arguments.training.dataloader_drop_last});
  }
  setup.reads = fmt::format("{}; {}", fmt::join(parts, "; "), counted(static_cast<size_t>(count), "row"));
  const bool grows = modules.sparse && arguments.training.do_train && setup.train;
  setup.objective = std::make_shared<SentenceObjective>(head, std::move(sets),
                                                        grows ? updates_of(*setup.train, arguments.training) : 0);
  align_special_tokens(*setup.model, tokenizer);
  setup.save_tokenizer = [tokenizer, modules, base, states, head](const std::string& directory) {
    tokenizer.save_pretrained(directory);
    write_sentence_modules(modules, base, states, directory);
    head.save(directory);
  };
}

}  // namespace transom
