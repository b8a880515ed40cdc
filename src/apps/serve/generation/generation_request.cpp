// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/generation/generation_request.h"

#include <charconv>
#include <random>

#include "apps/serve/api/known_fields.h"
#include "work/generation/constraint/constraint.h"
#include "work/generation/constraint/tokens/token_bytes.h"

namespace transom::serve {

bool can_generate(const ModelFacts& model) { return model.writes; }

SamplingFields default_sampling(const ServedModel& model, const ServeOptions& options) {
  SamplingFields sampling;
  const GenerationModel& checkpoint = model.generator->model();
  GenerationConfig& config = sampling.request.config;
  const bool uses_file = options.generation_config != "none";
  if (uses_file) config = checkpoint.config;
  const auto is_given = [&](const char* name) { return uses_file && checkpoint.given.contains(name); };
  if (!is_given("top_k")) config.top_k = 0;
  config.eos_token_id = checkpoint.config.eos_token_id;
  config.pad_token_id = checkpoint.config.pad_token_id;
  config.bos_token_id = checkpoint.config.bos_token_id;
  if (config.eos_token_id.empty())
    if (const auto end = checkpoint.tokenizer.eos_token_id()) config.eos_token_id = {*end};
  config.max_length.reset();
  config.max_new_tokens.reset();
  config.min_length = 0;
  config.num_beams = 1;
  config.num_return_sequences = 1;
  config.do_sample = true;
  config.seed = std::random_device{}();
  sampling.by_priority = options.by_priority;
  return sampling;
}

std::string read_adapter(const std::optional<std::string>& name, const ServedModel& model, SamplingFields& sampling) {
  if (!name || name->empty() || *name == model.name) return model.name;
  if (model.adapters->has(*name)) sampling.request.adapter = *name;
  return sampling.request.adapter.empty() ? model.name : *name;
}

namespace {

void read_logit_bias(RequestFields& fields, const ServedModel& model, EngineRequest& request) {
  const Json* bias = fields.object("logit_bias");
  if (!bias) return;
  if (bias->size() > 1024)
    refuse_field("logit_bias", "logit_bias: expected at most 1024 tokens, found {}", bias->size());
  for (const auto& [name, value] : bias->items()) {
    int64_t token = -1;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), token);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size() || token < 0 ||
        token >= model.tokenizer->vocab_size())
      refuse_field("logit_bias", "logit_bias: expected token ids from 0 to {}, found {}",
                   model.tokenizer->vocab_size() - 1, quoted(name));
    const double amount = value.is_number() ? value.get<double>() : NAN;
    if (!(amount >= -100 && amount <= 100))
      refuse_field("logit_bias", "logit_bias: expected numbers from -100 to 100, found {}", quoted(compact(value)));
    request.logit_bias.emplace_back(token, amount);
  }
}

// vLLM's fields. A word is forbidden as it stands and behind a space, where that begins with another token and has as
// many, as there (vllm/sampling_params.py).
void read_token_lists(RequestFields& fields, const ServedModel& model, SamplingFields& sampling) {
  constraint::TokenLists lists;
  if (const Json* given = fields.list("allowed_token_ids", 100'000)) {
    for (const Json& token : *given) {
      if (!token.is_number_integer() || token.get<int64_t>() < 0 ||
          token.get<int64_t>() >= model.tokenizer->vocab_size())
        refuse_field("allowed_token_ids", "allowed_token_ids: expected token ids from 0 to {}, found {}",
                     model.tokenizer->vocab_size() - 1, quoted(compact(token)));
      lists.allowed.push_back(token.get<int64_t>());
    }
    if (lists.allowed.empty()) refuse_field("allowed_token_ids", "allowed_token_ids: expected at least one token id");
  }
  const EncodeOptions no_marks{.add_special_tokens = false};
  if (const auto words = fields.texts("bad_words", 1024, 256))
    for (const std::string& word : *words) {
      const std::string text = word.substr(std::min(word.find_first_not_of(' '), word.size()));
      if (text.empty()) refuse_field("bad_words", "bad_words: expected words that are not empty");
      const std::vector<int64_t> plain = model.tokenizer->encode(text, std::nullopt, no_marks).ids;
      const std::vector<int64_t> spaced = model.tokenizer->encode(" " + text, std::nullopt, no_marks).ids;
      if (!plain.empty()) lists.forbidden.push_back(plain);
      if (!spaced.empty() && spaced.size() == plain.size() && spaced[0] != plain[0]) lists.forbidden.push_back(spaced);
    }
  if (!lists.empty()) sampling.lists = std::make_shared<const constraint::TokenLists>(std::move(lists));
}

// vLLM's fields: the n best of as many beams, or of best_of. Beams are not drawn: temperature and top_p mean nothing.
void read_beams(RequestFields& fields, GenerationConfig& config) {
  const int64_t n = config.num_return_sequences, best = fields.integer("best_of", 1, 16).value_or(n);
  if (best < n) refuse_field("best_of", "best_of: expected at least n ({}), found {}", n, best);
  const bool searches = fields.boolean("use_beam_search").value_or(false);
  if (!searches && best > n)
    refuse_field("best_of", "best_of: more than n ({}) needs use_beam_search on this server", n);
  if (!searches) return;
  const auto penalty = fields.number("length_penalty", -10, 10);
  const Json* early = fields.any("early_stopping");
  if (early && !early->is_boolean() && *early != "never")
    refuse_field("early_stopping", "early_stopping: expected true, false or \"never\", found {}",
                 quoted(compact(*early)));
  using EarlyStopping = GenerationConfig::EarlyStopping;
  config.num_beams = best;
  config.do_sample = false;
  if (penalty) config.length_penalty = *penalty;
  if (early)
    config.early_stopping = *early == "never"    ? EarlyStopping::kNever
                            : early->get<bool>() ? EarlyStopping::kTrue
                                                 : EarlyStopping::kFalse;
}

}  // namespace

void read_seed(RequestFields& fields, GenerationConfig& config) {
  const auto given = fields.integer("seed", INT64_MIN, INT64_MAX);
  if (given && *given != -1) config.seed = static_cast<uint64_t>(*given);
}

void read_sampling(RequestFields& fields, const ServedModel& model, SamplingFields& sampling) {
  EngineRequest& request = sampling.request;
  GenerationConfig& config = request.config;
  if (const auto given = fields.number("temperature", 0, 2)) config.temperature = *given;
  if (config.temperature < 1e-5) config.do_sample = false, config.temperature = 1;
  if (const auto given = fields.number("top_p", 0, 1)) config.top_p = *given;
  if (config.top_p <= 0) config.do_sample = false, config.top_p = 1;
  if (const auto given = fields.integer("top_k", -1, INT32_MAX)) config.top_k = std::max<int64_t>(0, *given);
  if (const auto given = fields.number("min_p", 0, 1)) config.min_p = *given;
  if (const auto given = fields.number("typical_p", 0, 1)) config.typical_p = *given > 0 ? *given : 1;
  if (const auto given = fields.number("repetition_penalty", 1e-3, 100)) config.repetition_penalty = *given;
  if (const auto given = fields.number("presence_penalty", -2, 2)) request.presence_penalty = *given;
  if (const auto given = fields.number("frequency_penalty", -2, 2)) request.frequency_penalty = *given;
  read_seed(fields, config);
  sampling.n = fields.integer("n", 1, 16).value_or(1);
  config.num_return_sequences = sampling.n;
  read_beams(fields, config);
  if (const auto stop = fields.texts("stop", 16, 256))
    for (const std::string& text : *stop) {
      if (text.empty()) refuse_field("stop", "stop: expected strings that are not empty");
      config.stop_strings.push_back(text);
    }
  sampling.include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  sampling.include_stop_token = fields.boolean("include_stop_token_in_output").value_or(false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.cache_salt = fields.text("cache_salt", 256).value_or("");
  request.priority = static_cast<int>(fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  // Any client could put itself before all others.
  if (request.priority != 0 && !sampling.by_priority)
    refuse_field("priority",
                 "priority: expected 0, found {}: this server was started without --scheduling_policy priority",
                 request.priority);
  sampling.min_tokens = fields.integer("min_tokens", 0, INT32_MAX);
  if (sampling.min_tokens.value_or(0) > 0) {
    config.min_new_tokens = *sampling.min_tokens;
    request.stop_strings_after = *sampling.min_tokens;
  }
  if (fields.boolean("ignore_eos").value_or(false)) config.eos_token_id.clear();
  if (const Json* tokens = fields.list("stop_token_ids", 1024))
    for (const Json& token : *tokens) {
      if (!token.is_number_integer() || token.get<int64_t>() < 0 ||
          token.get<int64_t>() >= model.tokenizer->vocab_size())
        refuse_field("stop_token_ids", "stop_token_ids: expected token ids, found {}", quoted(compact(token)));
      config.eos_token_id.push_back(token.get<int64_t>());
    }
  constexpr size_t kMostEnds = 16;  // a step of a search looks at as many texts for each beam
  if (config.num_beams > 1 && config.eos_token_id.size() > kMostEnds)
    refuse_field("stop_token_ids", "stop_token_ids: at most {} ends beside use_beam_search", kMostEnds);
  read_logit_bias(fields, model, request);
  read_token_lists(fields, model, sampling);
  sampling.details.ids = fields.boolean("return_token_ids").value_or(false);
  sampling.details.prompt_logprobs = request.prompt_logprobs = fields.integer("prompt_logprobs", 0, 20);
  if (request.prompt_logprobs && fields.boolean("stream").value_or(false))
    refuse_field("prompt_logprobs", "prompt_logprobs: not in streams");
}

StreamUsage read_stream_usage(RequestFields& fields, bool streams, const std::string& path) {
  const Json* given = fields.object("stream_options");
  if (!given) return {};
  RequestFields inner(*given, "stream_options");
  const bool at_end = inner.boolean("include_usage").value_or(false),
             in_chunks = inner.boolean("continuous_usage_stats").value_or(false);
  expect_known_fields(inner, path);
  if (!streams && at_end)
    report_once(path, "stream_options", path + ": stream_options.include_usage has no effect: stream is not true");
  if (in_chunks && !at_end)
    refuse_field("stream_options.continuous_usage_stats",
                 "stream_options.continuous_usage_stats: needs include_usage to be true");
  return {streams && at_end, streams && in_chunks};
}

void expect_one_plain_answer(const SamplingFields& sampling) {
  const auto refuse = [](const char* name) { refuse_field(name, "{}: not supported on this path", name); };
  if (sampling.n > 1) refuse("n");
  if (sampling.details.ids) refuse("return_token_ids");
  if (sampling.details.prompt_logprobs) refuse("prompt_logprobs");
}

std::string shown_end(const EngineEvent& event, bool include_stop, bool include_stop_token) {
  if (include_stop_token) return event.stop_text;
  return include_stop ? event.stop.value_or("") : "";
}

EngineRequest request_for(const SamplingFields& sampling, ModelInputs prompt, const ServedModel& model,
                          int64_t otherwise) {
  EngineRequest request = sampling.request;
  if (sampling.lists)
    request.constraint =
        constraint::by_token_lists(sampling.lists, model.generator->vocabulary()->ends, request.constraint);
  if (request.config.num_beams > 1 && request.constraint)
    refuse_field("use_beam_search",
                 "use_beam_search: not beside response_format, structured_outputs, guided_*, allowed_token_ids, "
                 "bad_words or tools that are enforced");
  const int64_t limit = model.generator->max_model_length();
  const auto length = static_cast<int64_t>(prompt.tokens.size());
  if (length == 0)
    refuse_field(sampling.names.prompt, "{}: the prompt is empty: expected at least one token", sampling.names.prompt);
  const int64_t asked = sampling.max_tokens.value_or(otherwise > 0 ? otherwise : std::max<int64_t>(1, limit - length));
  const bool fits = length + (sampling.max_tokens ? asked : 1) <= limit;
  if (limit > 0 && !fits)
    throw ApiError(
        400,
        fmt::format("this model's maximum context length is {} tokens; the prompt has {} and {} are asked for: "
                    "shorten {} or lower {}",
                    limit, length, sampling.max_tokens.value_or(1), sampling.names.prompt, sampling.names.tokens),
        length >= limit ? sampling.names.prompt : sampling.names.tokens, "context_length_exceeded");
  request.config.max_new_tokens =
      asked == 0 ? 0 : std::max<int64_t>(1, limit > 0 ? std::min(asked, limit - length) : asked);
  if (const int64_t most = *request.config.max_new_tokens; sampling.min_tokens.value_or(0) > most)
    refuse_field("min_tokens", "min_tokens: expected at most {} ({}), found {}", most,
                 sampling.max_tokens ? sampling.names.tokens : sampling.names.tokens + ", which was not given",
                 *sampling.min_tokens);
  for (const int64_t token : prompt.tokens)
    if (token < 0 || token >= model.tokenizer->vocab_size())
      throw ApiError(400,
                     fmt::format("{}: expected token ids from 0 to {}, found {}", sampling.names.prompt,
                                 model.tokenizer->vocab_size() - 1, token),
                     sampling.names.prompt);
  request.prompt = std::move(prompt);
  return request;
}

ApiError refused_by_engine(const Error& error, const FieldNames& names) {
  const std::pair<std::string_view, std::string> known[] = {
      {"prompt", names.prompt},        {"max_new_tokens", names.tokens}, {"num_return_sequences", names.samples},
      {"num_beams", names.beams},      {"stop_strings", "stop"},         {"eos_token_id", "stop_token_ids"},
      {"min_new_tokens", "min_tokens"}};
  std::string text = error.what();
  const size_t end = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"), text.size());
  const bool leads = end > 0 && (text.compare(end, 1, ":") == 0 || text.compare(end, 3, " = ") == 0);
  if (!leads) return {400, text};
  std::string field = text.substr(0, end);
  for (const auto& [name, shown] : known)
    if (field == name) field = shown;
  return {400, field + text.substr(end), field};
}

std::string token_text(const Tokenizer& tokenizer, int64_t token) { return token_bytes(tokenizer, token); }

Json token_json(const Tokenizer& tokenizer, int64_t token) {
  const std::string bytes = token_bytes(tokenizer, token);
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", bytes}, {"bytes", list}};
}

}  // namespace transom::serve
