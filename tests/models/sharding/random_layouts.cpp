// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/random_layouts.h"

#include <random>

#include "base/error.h"
#include "base/json/json.h"
#include "support/ranks.h"
#include "transom/model.h"

namespace transom {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  template <typename T>
  T of(std::initializer_list<T> items) {
    return *(items.begin() + from(0, static_cast<int64_t>(items.size()) - 1));
  }
  bool chance(int64_t percent) { return from(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

// Heads, a width that they divide, layers, and a vocabulary that no number of processes divides.
struct Sizes {
  int64_t heads, head, width, layers, inner, vocabulary;
};

Json llama_of(Draw& draw, const Sizes& s) {
  const int64_t groups = s.heads % 2 == 0 ? draw.of<int64_t>({1, 2}) : 1;
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", s.vocabulary},
          {"hidden_size", s.width},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.heads / groups},
          {"intermediate_size", s.inner},
          {"max_position_embeddings", 32},
          {"tie_word_embeddings", draw.chance(50)},
          {"pad_token_id", 0}};
}

Json gpt2_of(Draw& draw, const Sizes& s) {
  const double dropout = draw.of({0.0, 0.1});
  return {{"model_type", "gpt2"},       {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", s.vocabulary}, {"n_positions", 32},
          {"n_embd", s.width},          {"n_layer", s.layers},
          {"n_head", s.heads},          {"resid_pdrop", dropout},
          {"embd_pdrop", dropout},      {"attn_pdrop", dropout},
          {"pad_token_id", 0},          {"eos_token_id", 1}};
}

Json bert_of(Draw& draw, const Sizes& s) {
  const double dropout = draw.of({0.0, 0.1});
  return {{"model_type", "bert"},
          {"architectures", {"BertForSequenceClassification"}},
          {"vocab_size", s.vocabulary},
          {"hidden_size", s.width},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"intermediate_size", s.inner},
          {"max_position_embeddings", 32},
          {"type_vocab_size", 2},
          {"hidden_dropout_prob", dropout},
          {"attention_probs_dropout_prob", dropout},
          {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}},
          {"pad_token_id", 0}};
}

Json t5_of(Draw& draw, const Sizes& s) {
  const bool gated = draw.chance(50);
  return {{"model_type", "t5"},
          {"architectures", {"T5ForConditionalGeneration"}},
          {"vocab_size", s.vocabulary},
          {"d_model", s.width},
          {"d_kv", s.head},
          {"d_ff", s.inner},
          {"num_layers", s.layers},
          {"num_decoder_layers", draw.from(2, 3)},
          {"num_heads", s.heads},
          {"dropout_rate", draw.of({0.0, 0.1})},
          {"feed_forward_proj", gated ? "gated-gelu" : "relu"},
          {"tie_word_embeddings", draw.chance(50)},
          {"pad_token_id", 0},
          {"eos_token_id", 1},
          {"decoder_start_token_id", 0}};
}

Json bart_of(Draw& draw, const Sizes& s) {
  const double dropout = draw.of({0.0, 0.1});
  return {{"model_type", "bart"},
          {"architectures", {"BartForConditionalGeneration"}},
          {"vocab_size", s.vocabulary},
          {"d_model", s.width},
          {"encoder_layers", s.layers},
          {"decoder_layers", draw.from(2, 3)},
          {"encoder_attention_heads", s.heads},
          {"decoder_attention_heads", s.heads},
          {"encoder_ffn_dim", s.inner},
          {"decoder_ffn_dim", s.inner},
          {"max_position_embeddings", 32},
          {"dropout", dropout},
          {"attention_dropout", dropout},
          {"is_encoder_decoder", true},
          {"pad_token_id", 0},
          {"bos_token_id", 0},
          {"eos_token_id", 2},
          {"decoder_start_token_id", 2},
          {"forced_eos_token_id", 2}};
}

std::string ids_of(Draw& draw, int64_t count, int64_t vocabulary) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(draw.from(3, vocabulary - 1));
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

std::string rows_of_task(Draw& draw, const std::string& task, int64_t rows, int64_t vocabulary) {
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    text += fmt::format("{{\"input_ids\": {}", ids_of(draw, draw.from(2, 9), vocabulary));
    if (task == "text-classification") text += fmt::format(", \"labels\": {}", draw.from(0, 2));
    if (task == "translation") text += fmt::format(", \"labels\": {}", ids_of(draw, draw.from(1, 7), vocabulary));
    text += "}\n";
  }
  return text;
}

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> all;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) all.push_back(i);
  return all;
}

}  // namespace

std::string RandomLayout::describe() const {
  return fmt::format("{} processes with {} rows each: {} {}; {}", ranks, batch, fmt::join(layout, " "),
                     fmt::join(words, " "), config);
}

std::vector<std::string> words_of_ten_updates(const std::string& task) {
  return {"--task",
          task,
          "--max_steps",
          "10",
          "--gradient_accumulation_steps",
          "2",
          "--max_grad_norm",
          "0.5",
          "--learning_rate",
          "0.002",
          "--logging_steps",
          "1",
          "--save_strategy",
          "no",
          "--ddp_timeout",
          "300"};
}

RandomLayout random_layout(uint64_t seed) {
  Draw draw(seed * 2654435761u + 1);
  RandomLayout result;
  Sizes sizes{};
  sizes.heads = draw.of<int64_t>({2, 3, 4, 5, 6});
  sizes.head = draw.of<int64_t>({4, 8});
  sizes.width = sizes.heads * sizes.head;
  sizes.layers = draw.from(2, 4);
  sizes.inner = draw.from(9, 40);
  sizes.vocabulary = draw.of<int64_t>({37, 41, 43, 47});
  Json config;
  switch (draw.from(0, 4)) {
    case 0:
      config = llama_of(draw, sizes), result.task = "text-generation";
      break;
    case 1:
      config = gpt2_of(draw, sizes), result.task = "text-generation";
      break;
    case 2:
      config = bert_of(draw, sizes), result.task = "text-classification";
      break;
    case 3:
      config = t5_of(draw, sizes), result.task = "translation";
      break;
    default:
      config = bart_of(draw, sizes), result.task = "translation";
      break;
  }
  result.config = dump_json(config);
  result.rows = rows_of_task(draw, result.task, draw.from(9, 31), sizes.vocabulary);

  const int64_t accumulation = draw.from(1, 5);
  result.ranks = draw.from(2, 8);
  int64_t left = result.ranks;
  const auto take = [&](const char* flag, int64_t percent, int64_t most = 8) {
    if (!draw.chance(percent)) return int64_t{1};
    std::vector<int64_t> all = divisors(left);
    std::erase_if(all, [&](int64_t size) { return size > most; });
    const int64_t size = all[static_cast<size_t>(draw.from(0, static_cast<int64_t>(all.size()) - 1))];
    if (size == 1) return size;
    left /= size;
    result.layout.insert(result.layout.end(), {flag, std::to_string(size)});
    return size;
  };
  const int64_t stages = take("--pp_size", 40, sizes.layers);  // a stage has a layer at least
  take("--tp_size", 60);
  if (take("--cp_size", 25) > 1 && draw.chance(40))
    result.layout.insert(result.layout.end(), {"--cp_strategy", "allgather"});
  int64_t zero = draw.from(0, 3);
  // Plain data parallelism deals whole batches, as Trainer does.
  if (result.layout.empty()) zero = std::max<int64_t>(zero, 1);
  if (left > 1 && zero > 0) result.layout.insert(result.layout.end(), {"--zero_stage", std::to_string(zero)});
  if (stages > 1 && draw.chance(30)) {
    result.layout.insert(result.layout.end(), {"--pipeline_schedule", "gpipe"});
  } else if (stages > 1 && sizes.layers / stages > 1 && draw.chance(50)) {
    result.layout.insert(result.layout.end(), {"--pipeline_schedule", "interleaved", "--pp_chunks",
                                               std::to_string(draw.from(2, sizes.layers / stages))});
  }
  if (draw.chance(20)) result.layout.insert(result.layout.end(), {"--parameter_check_steps", "1"});
  result.batch = draw.from(1, 3);
  result.whole_batch = result.batch * left;

  result.words = {"--task",
                  result.task,
                  "--max_steps",
                  std::to_string(draw.from(3, 5)),
                  "--seed",
                  std::to_string(draw.from(0, 1000)),
                  "--gradient_accumulation_steps",
                  std::to_string(accumulation),
                  "--max_grad_norm",
                  draw.of<const char*>({"0.3", "1", "0"}),
                  "--learning_rate",
                  "0.002",
                  "--weight_decay",
                  draw.of<const char*>({"0", "0.1"}),
                  "--lr_scheduler_type",
                  draw.of<const char*>({"linear", "cosine", "constant"}),
                  "--logging_steps",
                  "1",
                  "--save_strategy",
                  "no",
                  "--ddp_timeout",
                  "300"};
  if (draw.chance(25)) result.words.insert(result.words.end(), {"--gradient_checkpointing", "true"});
  if (draw.chance(20)) result.words.insert(result.words.end(), {"--optim", "sgd"});
  return result;
}

namespace {

std::vector<Json> curve_of(const RandomLayout& layout, const fs::path& folder, const char* output, int64_t ranks,
                           int64_t batch, const std::vector<std::string>& more) {
  std::vector<std::string> words{"train",
                                 "--json",
                                 "--device",
                                 layout.device,
                                 "--model_name_or_path",
                                 (folder / "model").string(),
                                 "--train_file",
                                 (folder / "rows.jsonl").string(),
                                 "--per_device_train_batch_size",
                                 std::to_string(batch),
                                 "--output_dir",
                                 (folder / output).string()};
  words.insert(words.end(), layout.words.begin(), layout.words.end());
  words.insert(words.end(), more.begin(), more.end());
  std::string said;
  bool failed = false;
  const auto outcomes = test::run_ranks_over(layout.backend, words, folder, static_cast<int>(ranks));
  for (const test::Outcome& outcome : outcomes) {
    failed |= outcome.status != 0;
    said += outcome.error;
  }
  if (failed) fail("{} failed: {}", output, said);
  return test::steps_of(outcomes[0].output);
}

// Of losses, norms and rates of two runs.
double largest_curve_difference(const std::vector<Json>& one, const std::vector<Json>& all) {
  if (one.size() != all.size() || one.empty()) fail("expected {} steps, found {}", one.size(), all.size());
  double largest = 0;
  for (size_t i = 0; i < one.size(); ++i)
    for (const char* name : {"loss", "grad_norm", "learning_rate"}) {
      const double a = one[i].at(name).get<double>(), b = all[i].at(name).get<double>();
      largest = std::max(largest, std::abs(a - b) / (1e-3 + std::abs(a)));
    }
  return largest;
}

struct Curves {
  std::vector<Json> one, all;  // of one process, and of several
};

bool drops(const Json& config) {
  for (const auto& [name, value] : config.items())
    if (name.find("drop") != name.npos && value.is_number() && value.get<double>() > 0) return true;
  return false;
}

// Processes that share the rows of a batch draw dropout by the places of padded rows, which one process then keeps too.
std::vector<std::string> words_of_one(const RandomLayout& layout) {
  if (drops(parse_json(layout.config, "the model"))) return {"--padding_free", "false"};
  return {};
}

Curves curves_of(const RandomLayout& layout, const fs::path& folder) {
  fs::create_directories(folder);
  set_device("cpu");
  Model::from_config(layout.config, {.task = layout.task, .seed = layout.seed})
      ->save_pretrained((folder / "model").string());
  write_file(folder / "rows.jsonl", layout.rows);
  return {curve_of(layout, folder, "one", 1, layout.whole_batch, words_of_one(layout)),
          curve_of(layout, folder, "all", layout.ranks, layout.batch, layout.layout)};
}

}  // namespace

double difference_of_curves(const RandomLayout& layout, const std::filesystem::path& folder) {
  const Curves curves = curves_of(layout, folder);
  return largest_curve_difference(curves.one, curves.all);
}

CurveDifference difference_within(const RandomLayout& layout, const std::filesystem::path& folder, double rounding) {
  const Curves curves = curves_of(layout, folder);
  CurveDifference difference{largest_curve_difference(curves.one, curves.all), rounding};
  RandomLayout apart = layout;
  const auto flag = std::find(apart.words.begin(), apart.words.end(), "--gradient_accumulation_steps");
  if (difference.found <= rounding || flag == apart.words.end()) return difference;
  flag[1] = std::to_string(std::stoll(flag[1]) * layout.whole_batch);
  const std::vector<Json> parts = curve_of(apart, folder, "apart", 1, 1, words_of_one(layout));
  difference.allowed = std::max(rounding, 4 * largest_curve_difference(curves.one, parts));
  return difference;
}

}  // namespace transom
