// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/known_fields.h"

#include <algorithm>
#include <mutex>

#include "base/terminal/log.h"

namespace transom::serve {
namespace {

constexpr auto kNoEffect = KnownField::kNoEffect;
constexpr auto kReported = KnownField::kReported;
constexpr auto kRefused = KnownField::kRefused;

constexpr std::string_view kNotHere = "not supported by this server";
constexpr std::string_view kMedia = "this server writes and reads no pictures and sounds here";
constexpr std::string_view kHardware = "how the model is placed is said when the server is started";
constexpr std::string_view kElsewhere = "this path does not read it";
constexpr std::string_view kSystem =
    "this path does not read it; conversations have it as a message of the role system";
constexpr std::string_view kNoChat = "this path reads no conversation";
constexpr std::string_view kBeside = "what it holds stands beside the other fields on this path";
constexpr std::string_view kRouters = "it is for services that pass requests on";

constexpr KnownField kFields[] = {
    // For the records of whoever runs the service.
    {"user", kNoEffect, ""},
    {"metadata", kNoEffect, ""},
    {"store", kNoEffect, ""},
    {"service_tier", kNoEffect, ""},
    {"safety_identifier", kNoEffect, ""},
    {"prompt_cache_key", kNoEffect, ""},
    {"prompt_cache_retention", kNoEffect, ""},
    {"prompt_cache_options", kNoEffect, ""},
    {"request_id", kNoEffect, ""},
    {"additional_data", kNoEffect, ""},
    {"keep_alive", kNoEffect, ""},  // models stay in memory, or leave it by --memory_budget
    {"prediction", kNoEffect, ""},  // only makes an answer come sooner
    {"cache_salt", kNoEffect, ""},  // of paths that keep nothing between requests
    {"verbose", kNoEffect, ""},     // of /api/show
    {"guided_decoding_backend", kNoEffect, ""},
    {"guided_whitespace_pattern", kReported, "grammars allow one space between parts"},
    {"spaces_between_special_tokens", kReported, "texts are decoded as fast tokenizers do it"},
    {"stream_options.include_obfuscation", kNoEffect, ""},
    {"truncate", kNoEffect, ""},  // of Ollama's chats: what is too long is refused
    {"shift", kNoEffect, ""},
    {"options.use_cache", kNoEffect, ""},
    {"options.wait_for_model", kNoEffect, ""},
    {"parameters.use_cache", kNoEffect, ""},
    {"parameters.truncation", kNoEffect, ""},
    {"use_cache", kNoEffect, ""},
    {"truncation", kReported, "an input that is too long is refused", R"("disabled")"},

    // OpenAI.
    {"audio", kRefused, kMedia},
    {"modalities", kRefused, kMedia, R"(["text"])"},
    {"web_search_options", kRefused, kNotHere},
    {"suffix", kRefused, kNotHere},
    {"access_programs", kRefused, kNotHere},
    {"background", kRefused, "this server answers at once"},
    {"background_options", kRefused, "this server answers at once"},
    {"image", kRefused, kMedia},
    {"tool_prompt", kReported, "the chat template says how tools are told"},
    {"conversation", kRefused, "this server keeps none; send the whole conversation as input"},
    {"previous_response_id", kRefused, "this server keeps no responses; send the whole conversation"},
    {"prompt", kRefused, "this path reads none, and this server keeps none; send the whole conversation"},
    {"context_management", kRefused, kNotHere},
    {"max_tool_calls", kReported, "it is about built-in tools, of which there are none"},
    {"moderation", kReported, "nothing is moderated"},
    {"verbosity", kReported, "it is of OpenAI's own models", R"("medium")"},
    {"text.verbosity", kReported, "it is of OpenAI's own models", R"("medium")"},
    {"reasoning.summary", kReported, "thoughts are shown as they are"},
    {"reasoning.generate_summary", kReported, "thoughts are shown as they are"},
    {"chunking_strategy", kReported, "sounds are heard window by window"},
    {"include", kRefused, kNotHere},
    {"include[]", kRefused, kNotHere},
    {"keywords", kReported, "see prompt"},
    {"keywords[]", kReported, "see prompt"},
    {"languages", kRefused, "expected one language"},
    {"languages[]", kRefused, "expected one language"},
    {"known_speaker_names", kRefused, kNotHere},
    {"known_speaker_references", kRefused, kNotHere},
    {"known_speaker_names[]", kRefused, kNotHere},
    {"known_speaker_references[]", kRefused, kNotHere},

    // Anthropic.
    {"container", kRefused, kNotHere},
    {"mcp_servers", kRefused, kNotHere},
    {"diagnostics", kReported, kNotHere},
    {"inference_geo", kNoEffect, ""},
    {"speed", kReported, "there is one speed", R"("standard")"},
    {"user_profile_id", kNoEffect, ""},

    // vLLM.
    {"allowed_token_ids", kRefused, "not supported on this path"},
    {"bad_words", kRefused, "not supported on this path"},
    {"truncate_prompt_tokens", kRefused, kNotHere},
    {"truncation_side", kReported, "prompts of texts to be written are not cut"},
    {"logits_processors", kRefused, kNotHere},
    {"echo", kRefused, "not supported on this path"},
    {"thinking_token_budget", kRefused, "not supported on this path"},
    {"include_reasoning", kReported, "thoughts are not told from the text on this path"},
    {"return_tokens_as_token_ids", kRefused, "not supported by this server; see return_token_ids"},
    {"kv_transfer_params", kRefused, kNotHere},
    {"vllm_xargs", kRefused, kNotHere},
    {"mm_processor_kwargs", kRefused, kMedia},
    {"media_io_kwargs", kReported, kMedia},
    {"structural_tag", kRefused, kNotHere},
    {"split_special_tokens", kRefused, "not supported beside messages, whose template writes special tokens"},
    {"embed_dtype", kRefused, "vectors are of float32", R"("float32" "auto")"},
    {"endianness", kRefused, "vectors are little-endian", R"("native" "little")"},
    {"length_penalty", kReported, "it needs use_beam_search"},
    {"early_stopping", kReported, "it needs use_beam_search"},
    {"n", kRefused, "this path gives one answer", "1"},
    {"priority", kRefused, "encoders take turns, whatever the priority", "0"},

    // llama.cpp's server and SGLang; what they share with Ollama stands there too, within options.
    {"cache_prompt", kNoEffect, ""},
    {"id_slot", kNoEffect, ""},
    {"timings_per_token", kReported, kNotHere},
    {"return_progress", kReported, kNotHere},
    {"n_predict", kRefused, "not supported on this path; see max_tokens"},
    {"n_probs", kRefused, "not supported on this path; see logprobs", "0"},
    {"n_keep", kReported, "a prompt that is too long is refused"},
    {"repeat_penalty", kRefused, "not supported on this path; see repetition_penalty", "1"},
    {"repeat_last_n", kReported, "repetition_penalty looks at the whole text"},
    {"mirostat", kRefused, kNotHere, "0"},
    {"mirostat_eta", kReported, "it needs mirostat"},
    {"mirostat_tau", kReported, "it needs mirostat"},
    {"tfs_z", kRefused, kNotHere, "1"},
    {"dynatemp_range", kRefused, kNotHere, "0"},
    {"dynatemp_exponent", kReported, "it needs dynatemp_range"},
    {"top_n_sigma", kRefused, kNotHere, "-1"},
    {"xtc_probability", kRefused, kNotHere, "0"},
    {"xtc_threshold", kReported, "it needs xtc_probability"},
    {"dry_multiplier", kRefused, kNotHere, "0"},
    {"dry_base", kReported, "it needs dry_multiplier"},
    {"dry_allowed_length", kReported, "it needs dry_multiplier"},
    {"dry_penalty_last_n", kReported, "it needs dry_multiplier"},
    {"dry_sequence_breakers", kReported, "it needs dry_multiplier"},
    {"samplers", kRefused, kNotHere},
    {"min_keep", kRefused, kNotHere, "0"},
    {"t_max_predict_ms", kRefused, kNotHere, "0"},
    {"lora", kRefused, "adapters are models of their own; see model"},
    {"lora_path", kRefused, "adapters are models of their own; see model"},
    {"stop_regex", kRefused, "not supported by this server; see stop"},
    {"custom_logit_processor", kRefused, kNotHere},

    // Rerankers of Cohere and Jina.
    {"max_chunks_per_doc", kReported, "documents are not cut into pieces"},
    {"rank_fields", kRefused, "of documents the field text is read"},
    {"relevant_spans", kRefused, kNotHere},

    // Ollama.
    {"template", kRefused, kNotHere},
    {"images", kRefused, kMedia},
    {"width", kRefused, kMedia},
    {"height", kRefused, kMedia},
    {"steps", kRefused, kMedia},
    {"options.num_ctx", kReported, "the context is that of the model, or --max_model_length"},
    {"options.num_keep", kReported, "a prompt that is too long is refused"},
    {"options.repeat_last_n", kReported, "repeat_penalty looks at the whole text"},
    {"options.penalize_newline", kReported, "line ends are tokens like others"},
    {"options.mirostat", kRefused, kNotHere, "0"},
    {"options.mirostat_eta", kReported, "it needs mirostat"},
    {"options.mirostat_tau", kReported, "it needs mirostat"},
    {"options.tfs_z", kRefused, kNotHere, "1"},
    {"options.num_batch", kNoEffect, kHardware},
    {"options.num_gpu", kNoEffect, kHardware},
    {"options.main_gpu", kNoEffect, kHardware},
    {"options.num_thread", kNoEffect, kHardware},
    {"options.numa", kNoEffect, kHardware},
    {"options.use_mmap", kNoEffect, kHardware},
    {"options.use_mlock", kNoEffect, kHardware},
    {"options.low_vram", kNoEffect, kHardware},
    {"options.vocab_only", kNoEffect, kHardware},
    {"options.f16_kv", kNoEffect, kHardware},
    {"options.logits_all", kNoEffect, kHardware},
    {"options.embedding_only", kNoEffect, kHardware},

    // text-generation-inference, and Hugging Face's inference form.
    {"parameters.watermark", kRefused, kNotHere},
    {"parameters.best_of", kRefused, kNotHere, "1"},
    {"parameters.top_n_tokens", kRefused, kNotHere, "0"},
    {"parameters.num_beams", kRefused, kElsewhere, "1"},
    {"parameters.num_return_sequences", kRefused, kElsewhere, "1"},
    {"parameters.no_repeat_ngram_size", kRefused, kElsewhere, "0"},
    {"parameters.bad_words_ids", kRefused, kElsewhere},
    {"parameters.min_new_tokens", kRefused, kElsewhere, "0"},
    {"parameters.min_length", kRefused, kElsewhere, "0"},
    {"parameters.max_length", kRefused, "this path does not read it; see max_new_tokens"},
    {"parameters.max_tokens", kRefused, "this path does not read it; see max_new_tokens"},
    {"parameters.max_time", kRefused, kNotHere},
    {"parameters.penalty_alpha", kRefused, kNotHere},
    {"parameters.presence_penalty", kRefused, kElsewhere, "0"},
    {"parameters.logit_bias", kRefused, kElsewhere},
    {"parameters.min_p", kRefused, kElsewhere, "0"},

    // Services of vectors and of rankings: Jina, Voyage, Cohere, Mistral, NVIDIA, SiliconFlow, Infinity.
    {"late_chunking", kRefused, kNotHere},
    {"return_multivector", kRefused, kNotHere},
    {"embedding_type", kRefused, "vectors are of float32; see encoding_format", R"("float" ["float"])"},
    {"embedding_types", kRefused, "vectors are of float32; see encoding_format", R"(["float"])"},
    {"output_dtype", kRefused, "vectors are of float32; see encoding_format", R"("float" "float32")"},
    {"output_dimension", kRefused, "not supported on this path; see dimensions"},
    {"dimensions", kRefused, "this path gives no vectors"},
    {"input_type", kRefused, "not supported by this server; see prompt_name", R"("none")"},
    {"task", kRefused, "not supported on this path; see prompt_name"},
    {"prompt_name", kRefused, "this path puts no prompt before texts"},
    {"instruction", kRefused, "not supported by this server; see prompt_name"},
    {"normalized", kRefused, "not supported by this server; see normalize", "true"},
    {"normalize", kRefused, kElsewhere, "true"},
    {"use_activation", kRefused, kElsewhere, "true"},
    {"activation", kRefused, kElsewhere, "true"},
    {"raw_scores", kRefused, "of requests with texts; see use_activation"},
    {"return_text", kRefused, "of requests with texts; see return_documents"},
    {"return_embeddings", kRefused, kNotHere},
    {"return_documents", kRefused, kElsewhere},
    {"top_n", kRefused, kElsewhere, "0"},
    {"documents", kRefused, kElsewhere},
    {"texts", kRefused, kElsewhere},
    {"score_threshold", kRefused, kNotHere},
    {"add_special_tokens", kRefused, kElsewhere, "true"},
    {"overlap_tokens", kReported, "documents are not cut into pieces"},

    // What other paths of this server read, or whoever comes from other engines takes for read.
    {"messages", kRefused, kNoChat},
    {"input", kRefused, kElsewhere},
    {"inputs", kRefused, kElsewhere},
    {"system", kRefused, kSystem},
    {"system_instruction", kRefused, kSystem},
    {"instructions", kRefused, kSystem},
    {"context", kRefused, "this path does not read it: send the whole conversation"},
    {"options", kRefused, kBeside},
    {"parameters", kRefused, kBeside},
    {"extra_body", kRefused, kBeside},
    {"format", kRefused, "this path does not read it; see response_format"},
    {"text", kRefused, "this path does not read it; see response_format"},
    {"response_format", kRefused, "this path does not read it; see text.format or format", R"({"type":"text"})"},
    {"guided_decoding", kRefused, "not supported by this server; see structured_outputs"},
    {"tools", kRefused, kNoChat},
    {"tool_choice", kRefused, kNoChat, R"("none" "auto")"},
    {"functions", kRefused, kNoChat},
    {"function_call", kRefused, kNoChat, R"("none" "auto")"},
    {"reasoning_effort", kRefused, "this path does not read it; see reasoning.effort"},
    {"reasoning", kRefused, "this path does not read it; see reasoning_effort and chat_template_kwargs"},
    {"chat_template", kRefused, kElsewhere},
    {"chat_template_kwargs", kRefused, kElsewhere},
    {"add_generation_prompt", kRefused, kElsewhere, "true"},
    {"continue_final_message", kRefused, kElsewhere},
    {"prompt_embeds", kRefused, kNotHere},
    {"thinking.budget_tokens", kRefused, "not supported by this server; see thinking_token_budget"},
    {"thinking.clear_thinking", kReported, "the chat template says which thoughts of a history it writes"},
    {"thinking", kRefused, kElsewhere},
    {"think", kRefused, kElsewhere},
    {"enable_thinking", kRefused, kElsewhere},
    {"thinking_budget", kRefused, "not supported by this server; see thinking_token_budget"},
    {"max_tokens", kRefused, "this path does not read it; see max_output_tokens"},
    {"max_completion_tokens", kRefused, "this path does not read it; see max_tokens"},
    {"max_output_tokens", kRefused, "this path does not read it; see max_tokens"},
    {"max_new_tokens", kRefused, "this path does not read it; see max_tokens"},
    {"max_length", kRefused, "this path does not read it; see max_tokens"},
    {"min_new_tokens", kRefused, "this path does not read it; see min_tokens", "0"},
    {"num_predict", kRefused, "this path does not read it; see max_tokens"},
    {"stop", kRefused, "this path does not read it; see stop_sequences or options.stop"},
    {"stop_token_ids", kRefused, kElsewhere},
    {"seed", kRefused, kElsewhere, "-1"},
    {"temperature", kRefused, kElsewhere},
    {"top_p", kRefused, kElsewhere, "1"},
    {"top_k", kRefused, kElsewhere, "0 -1"},
    {"min_p", kRefused, kElsewhere, "0"},
    {"typical_p", kRefused, kElsewhere, "1"},
    {"repetition_penalty", kRefused, kElsewhere, "1"},
    {"presence_penalty", kRefused, kElsewhere, "0"},
    {"frequency_penalty", kRefused, kElsewhere, "0"},
    {"logit_bias", kRefused, kElsewhere},
    {"logprobs", kRefused, kElsewhere, "0"},
    {"top_logprobs", kRefused, kElsewhere, "0"},
    {"min_tokens", kRefused, kElsewhere, "0"},
    {"ignore_eos", kRefused, kElsewhere},
    {"use_beam_search", kRefused, kElsewhere},
    {"guided_json", kRefused, kElsewhere},
    {"guided_regex", kRefused, kElsewhere},
    {"guided_choice", kRefused, kElsewhere},
    {"guided_grammar", kRefused, kElsewhere},
    {"structured_outputs", kRefused, kElsewhere},
    {"stop_sequences", kRefused, "this path does not read it; see stop"},
    {"do_sample", kRefused, "not supported on this path; see temperature", "true"},
    {"random_seed", kRefused, "this path does not read it; see seed"},
    {"top_a", kRefused, kNotHere, "0"},
    {"num_beams", kRefused, "this path does not read it; see use_beam_search", "1"},
    {"no_repeat_ngram_size", kRefused, kNotHere, "0"},
    {"detokenize", kRefused, kNotHere, "true"},
    {"return_hidden_states", kRefused, kNotHere},
    {"safe_prompt", kRefused, kNotHere},
    {"separate_reasoning", kRefused, "the server says it for all, by --reasoning_parser", "true"},
    {"reasoning_format", kRefused, "the server says it for all, by --reasoning_parser", R"("auto" "deepseek")"},
    {"parse_tool_calls", kRefused, kNotHere, "true"},
    {"no_stop_trim", kRefused, "not supported by this server; see include_stop_str_in_output"},
    {"session_params", kRefused, kNotHere},
    {"input_ids", kRefused, "this path does not read it; see prompt"},
    {"rid", kNoEffect, ""},
    {"stream_reasoning", kReported, "thoughts are streamed as they come", "true"},
    {"return_tokens", kReported, "see return_token_ids"},
    {"structured_outputs.whitespace_pattern", kReported, "grammars allow one space between parts"},
    {"structured_outputs.disable_any_whitespace", kReported, "grammars allow one space between parts"},
    {"transforms", kRefused, kRouters},
    {"provider", kReported, kRouters},
    {"models", kReported, kRouters},
    {"route", kReported, kRouters},
    {"plugins", kRefused, kRouters},
};

// Of a field that is true where it asks for nothing, false asks for something.
bool asks_for_nothing(const Json& value, const KnownField& field) {
  if (value == false) return field.harmless != "true";
  if (value.is_null() || value == "" || ((value.is_array() || value.is_object()) && value.empty())) return true;
  // The values one behind the other.
  for (std::string_view rest = field.harmless; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (value == Json::parse(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

void report_once(const std::string& path, const std::string& name, const std::string& text) {
  constexpr size_t kMost = 200, kLongest = 100;
  static std::mutex mutex;
  static std::set<std::string> known;
  {
    const std::lock_guard lock(mutex);
    if (known.size() >= kMost || !known.insert(path + " " + name.substr(0, kLongest)).second) return;
  }
  log(LogLevel::kInfo, text);
}

std::span<const KnownField> known_fields() { return kFields; }

void expect_known_fields(const RequestFields& fields, const std::string& path) {
  for (const std::string& own : fields.unknown()) {
    const std::string name = fields.name_of(own.c_str());
    const auto known =
        std::find_if(std::begin(kFields), std::end(kFields), [&](const KnownField& each) { return each.name == name; });
    if (known == std::end(kFields)) {
      report_once(path, name, fmt::format("{}: the field {} is not known and is ignored", path, quoted(name)));
      continue;
    }
    if (known->what == kNoEffect || asks_for_nothing(fields.value_of(own), *known)) continue;
    if (known->what == kRefused) refuse_field(name, "{}: {}", name, known->reason);
    report_once(path, name, fmt::format("{}: the field {} has no effect: {}", path, quoted(name), known->reason));
  }
}

void report_other_members(const Json& object, const std::string& path, const std::string& what,
                          std::span<const std::string_view> known) {
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end() && !asks_for_nothing(value, {}))
      report_once(path, what + "." + name, fmt::format("{}: {} of {} has no effect", path, quoted(name), what));
}

void expect_known_options(RequestFields& fields, const std::string& path) {
  if (const Json* given = fields.object("options")) expect_known_fields(RequestFields(*given, "options"), path);
}

}  // namespace transom::serve
