// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/encoders/encode_inputs.h"

#include <cmath>

namespace transom::serve {
namespace {

bool is_ids(const Json& json) { return json.is_array() && !json.empty() && json[0].is_number_integer(); }

Encoding encoding_of_ids(const Json& list, const char* field, const ServedModel& model) {
  Encoding encoding;
  const int64_t size = model.tokenizer->vocab_size();
  for (const Json& id : list) {
    const bool known = id.is_number_integer() && (!id.is_number_unsigned() || id.get<uint64_t>() < (1u << 30)) &&
                       id.get<int64_t>() >= 0 && id.get<int64_t>() < size;
    if (!known)
      refuse_field(field, "{}: expected token ids from 0 to {}, found {}", field, size - 1, quoted(compact(id)));
    encoding.ids.push_back(id.get<int64_t>());
  }
  encoding.type_ids.assign(encoding.ids.size(), 0);
  encoding.attention_mask.assign(encoding.ids.size(), 1);
  encoding.special_tokens_mask.assign(encoding.ids.size(), 0);
  return encoding;
}

}  // namespace

bool can_embed(const ModelFacts& model) { return model.embeds; }

namespace {

// The texts behind the prompt; other inputs as they are.
Json behind(const std::string& prompt, const Json& input) {
  if (input.is_string()) return prompt + input.get_ref<const std::string&>();
  if (!input.is_array()) return input;
  Json result = Json::array();
  for (const Json& each : input)
    result.push_back(each.is_string() ? Json(prompt + each.get_ref<const std::string&>()) : each);
  return result;
}

}  // namespace

Json with_prompt(const Json& input, const char* field, const ServedModel& model, const std::string& prompt_name) {
  const auto& prompts = model.embedder->model->modules().prompts;
  const auto found = prompts.find(prompt_name);
  if (found == prompts.end()) {
    std::vector<std::string> names;
    for (const auto& [name, text] : prompts) names.push_back(name);
    refuse_field(
        "prompt_name", "prompt_name: expected {}, found {}",
        names.empty() ? "nothing, since this model has no prompts" : fmt::format("{}", fmt::join(names, " or ")),
        quoted(prompt_name));
  }
  for (const Json& text : input.is_array() ? input : Json::array({input}))
    if (!text.is_string())
      refuse_field("prompt_name", "prompt_name: expected texts in {}, found {}", field, quoted(compact(text)));
  return behind(found->second, input);
}

void refuse_prompt(const VectorSettings& settings) {
  if (settings.prompt)
    refuse_field("prompt_name", "prompt_name: expected nothing, since this model has no prompts, found {}",
                 quoted(*settings.prompt));
}

EncodeOptions encode_options_of(const TooLong& too_long, const ServedModel& model) {
  EncodeOptions options;
  const auto limit = model.max_length;
  if (too_long.what != TooLong::kTruncate || (!too_long.length && !limit)) return options;
  options.truncation = Truncation::kLongestFirst;
  options.max_length = std::min(too_long.length.value_or(INT64_MAX), limit.value_or(INT64_MAX));
  options.truncation_side = too_long.side;
  return options;
}

void expect_fits(size_t tokens, const char* field, const ServedModel& model, const TooLong& too_long) {
  if (!model.max_length || static_cast<int64_t>(tokens) <= *model.max_length) return;
  throw ApiError(too_long.status,
                 fmt::format("this model's maximum context length is {} tokens; an input has {}: shorten it or {}",
                             *model.max_length, tokens, too_long.remedy),
                 field, "context_length_exceeded");
}

std::string first_tokens(const std::string& text, int64_t tokens, const Tokenizer& tokenizer) {
  const Encoding encoding = tokenizer.encode(text, std::nullopt, {.add_special_tokens = false});
  if (static_cast<int64_t>(encoding.size()) <= tokens) return text;
  const auto kept = static_cast<size_t>(tokens);
  if (!tokenizer.has_offsets())
    return tokenizer.decode({encoding.ids.begin(), encoding.ids.begin() + static_cast<ptrdiff_t>(kept)});
  int64_t characters = encoding.offsets[kept - 1].second;
  size_t end = 0;
  while (end < text.size() && characters > 0) {
    ++end;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    --characters;
  }
  return text.substr(0, end);
}

EncodedInputs encode_inputs(const Json& given, const char* field, const ServedModel& model, int64_t most,
                            const VectorSettings& settings, bool special_tokens, bool empty_texts) {
  const TooLong& too_long = settings.too_long;
  EncodedInputs result;
  Json input = given;
  if (settings.prompt) input = with_prompt(given, field, model, *settings.prompt);
  else if (model.embedder) input = behind(model.embedder->model->modules().default_prompt, given);
  if (model.embedder) {
    const SentenceModules& modules = model.embedder->model->modules();
    const bool texts = given.is_string() || (given.is_array() && !given.empty() && given[0].is_string());
    if (texts)
      result.left_out = model.embedder->model->left_out(settings.prompt ? modules.prompts.at(*settings.prompt)
                                                                        : modules.default_prompt);
  }
  result.single = input.is_string() || is_ids(input);
  const Json list = result.single ? Json::array({input}) : input;
  if (!list.is_array() || list.empty())
    refuse_field(field, "{}: expected a string, a list of strings, token ids, or a list of them, found {}", field,
                 quoted(compact(input)));
  if (static_cast<int64_t>(list.size()) > most)
    refuse_field(field, "{}: expected at most {} inputs, found {}", field, most, list.size());
  EncodeOptions options = encode_options_of(too_long, model);
  options.add_special_tokens = special_tokens;
  for (const Json& item : list) {
    Encoding encoding;
    if (item.is_string()) {
      const auto& text = item.get_ref<const std::string&>();
      if (text.empty() && !empty_texts) refuse_field(field, "{}: expected texts that are not empty", field);
      encoding = model.tokenizer->encode(text, std::nullopt, options);
    } else if (is_ids(item)) {
      if (result.left_out > 0)
        refuse_field(field, "{}: expected texts alone or token ids alone: a prompt stands before texts", field);
      encoding = encoding_of_ids(item, field, model);
      if (options.max_length && encoding.ids.size() > static_cast<size_t>(*options.max_length)) {
        const auto keep = static_cast<size_t>(*options.max_length);
        if (too_long.side == Side::kLeft)
          encoding.ids.erase(encoding.ids.begin(), encoding.ids.end() - static_cast<ptrdiff_t>(keep));
        for (auto* list_of :
             {&encoding.ids, &encoding.type_ids, &encoding.attention_mask, &encoding.special_tokens_mask})
          list_of->resize(keep);
      }
    } else {
      refuse_field(field, "{}: expected a string or token ids, found {}", field, quoted(compact(item)));
    }
    expect_fits(encoding.size(), field, model, too_long);
    if (encoding.size() == 0) refuse_field(field, "{}: a text without tokens", field);
    result.tokens += static_cast<int64_t>(encoding.size());
    result.encodings.push_back(std::move(encoding));
  }
  return result;
}

std::optional<bool> normalizes(const VectorSettings& settings, const ServedModel& model) {
  if (settings.normalize || model.embedder->model->modules().declared) return settings.normalize;
  return true;
}

void cut_vector(std::vector<float>& vector, int64_t dimensions, std::optional<bool> normalize,
                const ServedModel& model) {
  if (dimensions > static_cast<int64_t>(vector.size()))
    refuse_field("dimensions", "dimensions: expected at most {}, found {}", vector.size(), dimensions);
  if (dimensions <= 0 || dimensions == static_cast<int64_t>(vector.size())) return;
  vector.resize(static_cast<size_t>(dimensions));
  if (!normalize.value_or(model.embedder->model->modules().normalizes())) return;
  double square = 0;
  for (const float each : vector) square += static_cast<double>(each) * each;
  const double length = std::max(std::sqrt(square), 1e-12);
  for (float& each : vector) each = static_cast<float>(each / length);
}

}  // namespace transom::serve
