// SPDX-License-Identifier: Apache-2.0
// The patterns are those of the models' own tokenizer.json where llama.cpp has to approximate them, because its regular
// expressions know no classes of small and capital letters: docs/differences.md.
#include "files/gguf/gguf_pre_tokenizers.h"

#include <optional>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {

#define TRANSOM_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
const char* const kGgufGpt2Pattern = TRANSOM_GPT2;

namespace {

#define TRANSOM_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define TRANSOM_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr const char* kGpt2 = TRANSOM_GPT2;
constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kThreeDigits = R"([0-9][0-9][0-9])";
constexpr const char* kLines = R"([^\n]+|[\n]+)";
constexpr const char* kLlama3 =
    TRANSOM_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TRANSOM_SPACES;
constexpr const char* kQwen2 =
    TRANSOM_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TRANSOM_SPACES;
constexpr const char* kQwen35 =
    TRANSOM_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" TRANSOM_SPACES;
constexpr const char* kMinicpm5 =
    TRANSOM_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" TRANSOM_SPACES;
constexpr const char* kUfakzeka = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TRANSOM_SPACES;
constexpr const char* kJais2 = TRANSOM_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S))"
    R"(|\s{1,2}(?!\S)|\s{1})";
constexpr const char* kBailing = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                                 R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    TRANSOM_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" TRANSOM_SPACES;
constexpr const char* kExaoneMoe =
    TRANSOM_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                         R"(|\s*[\r\n]|\s+(?!\S)|\s+)";

// Words of capitals, then small letters.
#define TRANSOM_CAPITALS R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define TRANSOM_SMALL R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define TRANSOM_BEFORE R"([^\r\n\p{L}\p{N}]?)"
constexpr const char* kTekken =
    TRANSOM_BEFORE TRANSOM_CAPITALS "*" TRANSOM_SMALL "+|" TRANSOM_BEFORE TRANSOM_CAPITALS "+" TRANSOM_SMALL
                                    R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TRANSOM_SPACES;
#define TRANSOM_GPT4O_WORDS                                                                                       \
  TRANSOM_BEFORE TRANSOM_CAPITALS "*" TRANSOM_SMALL "+" TRANSOM_CONTRACTIONS "?|" TRANSOM_BEFORE TRANSOM_CAPITALS \
                                  "+" TRANSOM_SMALL "*" TRANSOM_CONTRACTIONS "?"
constexpr const char* kGpt4o = TRANSOM_GPT4O_WORDS R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TRANSOM_SPACES;
constexpr const char* kYoutu = TRANSOM_GPT4O_WORDS R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TRANSOM_SPACES;
// Classes without Han: (?!\p{Han}) stands for the intersection && of the model's own pattern.
#define TRANSOM_NO_HAN_CAPITALS R"((?:(?!\p{Han}))" TRANSOM_CAPITALS ")"
#define TRANSOM_NO_HAN_SMALL R"((?:(?!\p{Han}))" TRANSOM_SMALL ")"
constexpr const char* kKimi =
    R"([\p{Han}]+|)" TRANSOM_BEFORE TRANSOM_NO_HAN_CAPITALS "*" TRANSOM_NO_HAN_SMALL "+" TRANSOM_CONTRACTIONS
    "?|" TRANSOM_BEFORE TRANSOM_NO_HAN_CAPITALS "+" TRANSOM_NO_HAN_SMALL "*" TRANSOM_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TRANSOM_SPACES;

constexpr const char* kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
// Groups of three digits, counted from the last.
constexpr const char* kThousands = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
#define TRANSOM_DEEPSEEK_WORDS R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
constexpr const char* kDeepseek3 = TRANSOM_DEEPSEEK_WORDS R"(| ?[\p{P}\p{S}]+[\r\n]*)" TRANSOM_SPACES;
constexpr const char* kSpark = TRANSOM_DEEPSEEK_WORDS R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kChineseOrKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kChineseOrKorean = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+)"
    R"(|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C})"
    R"(\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+)"
    R"(|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kAfmoeScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF})"
    R"(\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF})"
    R"(\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
// DeepSeek LLM: the letters of scripts with capitals.
constexpr const char* kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295})"
    R"(-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E})"
    R"(-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0})"
    R"(-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50})"
    R"(-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2})"
    R"(-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})"
    R"(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70})"
    R"(-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";

const std::vector<GgufPreTokenizer>& table() {
  static const std::vector<GgufPreTokenizer> kTable = {
      {.names = {"default"}, .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", kThreeDigits}},
      {.names = {"gpt-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "phi-2", "jina-es", "jina-de",
                 "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "exaone4"},
       .patterns = {kGpt2}},
      {.names = {"roberta-bpe", "jina-v1-en", "jina-v2-code"}, .patterns = {kGpt2}, .separates = true},
      {.names = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .patterns = {kDigit, kGpt2}},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano"},
       .patterns = {kLlama3},
       .ignores_merges = true,
       .adds_bos = true},
      {.names = {"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"}, .patterns = {kLlama3}},
      {.names = {"jais-2"}, .patterns = {kJais2}},
      {.names = {"minicpm5"}, .patterns = {R"(\p{N}{1,3})", kMinicpm5}, .ignores_merges = true},
      {.names = {"qwen2", "deepseek-r1-qwen", "f2llmv2"}, .patterns = {kQwen2}, .composes = true},
      {.names = {"stablelm2", "kormo", "hunyuan", "megrez", "grok-2", "solar-open"}, .patterns = {kQwen2}},
      {.names = {"qwen35"}, .patterns = {kQwen35}, .composes = true},
      {.names = {"laguna"}, .patterns = {kLines, kQwen2}},
      {.names = {"ufakzeka"}, .patterns = {kUfakzeka}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .patterns = {kBailing}},
      {.names = {"seed-coder"}, .patterns = {kSeedCoder}},
      {.names = {"exaone-moe"}, .patterns = {kExaoneMoe}},
      {.names = {"tekken"}, .patterns = {kTekken}, .ignores_merges = true, .adds_bos = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .patterns = {kGpt4o}},
      {.names = {"granite-embed-multi-97m"}, .patterns = {kGpt4o}, .ignores_merges = true},
      {.names = {"tiny_aya", "cohere2moe"}, .patterns = {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}},
      {.names = {"kimi-k2"}, .patterns = {kKimi}},
      {.names = {"youtu"}, .patterns = {kYoutuScripts, kYoutu}, .ignores_merges = true},
      {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .patterns = {kBloom}},
      {.names = {"viking"}, .patterns = {kBloom, kDigit}},
      {.names = {"falcon"}, .patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, kThreeDigits}},
      {.names = {"deepseek-llm"},
       .patterns = {R"([\r\n])", kDeepseekLetters,
                    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)", R"(\s+$)",
                    kChineseOrKorean, R"(\p{N}+)"}},
      {.names = {"deepseek-coder"},
       .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kChineseOrKorean, kDigit}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .patterns = {R"(\p{N}{1,3})", kChineseOrKana, kDeepseek3}},
      {.names = {"spark2_5"}, .patterns = {R"(\p{N}{1,3})", kChineseOrKana, kSpark, kDigit}},
      {.names = {"afmoe"}, .patterns = {kThousands, kAfmoeScripts, kDeepseek3}},
      {.names = {"superbpe"}, .patterns = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
      {.names = {"chameleon"},
       .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"([\t\n]|    |  )", kDigit,
                    R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
       .adds_bos = true},
      {.names = {"gemma4", "granite-embed-multi-311m"}, .patterns = {kLines}, .adds_bos = true, .raw = true},
      {.names = {"sarvam-moe"}, .patterns = {kLines}, .raw = true}};
  return kTable;
}

Json split_at_matches(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json to_byte_characters(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", use_regex}};
}

// With the characters that \x{...} stands for, as tokenizer.json has them.
std::string written_out(std::string_view pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const size_t close = pattern.find('}', i);
    if (pattern.substr(i, 3) != "\\x{" || close == pattern.npos) {
      text += pattern[i];
      continue;
    }
    const unsigned long c = std::stoul(std::string(pattern.substr(i + 3, close - i - 3)), nullptr, 16);
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
    text += static_cast<char>(kLead[more] | c >> (6 * more));
    for (int j = more - 1; j >= 0; --j) text += static_cast<char>(0x80 | (c >> (6 * j) & 0x3F));
    i = close;
  }
  return text;
}

// The patterns of a tokenizer.json one after the other; nothing where it cuts in another way.
std::optional<std::vector<std::string>> patterns_of(const Json& pre_tokenizer) {
  if (!pre_tokenizer.is_object()) return std::nullopt;
  std::vector<std::string> patterns;
  const Json parts = pre_tokenizer.value("type", "") == "Sequence" ? pre_tokenizer.value("pretokenizers", Json::array())
                                                                   : Json::array({pre_tokenizer});
  for (const Json& part : parts) {
    const std::string type = part.is_object() ? part.value("type", "") : "";
    const Json pattern = type == "Split" ? part.value("pattern", Json()) : Json();
    // Pieces are the matches and what is between; a Split that removes what is between the matches leaves nothing out
    // where the pattern takes every character.
    const bool isolates = type == "Split" && (part.value("behavior", "") == "Isolated" ||
                                              (part.value("behavior", "") == "Removed" && part.value("invert", false)));
    if (isolates && pattern.is_object() && pattern.contains("Regex")) {
      patterns.push_back(pattern["Regex"].get<std::string>());
    } else if (type == "Digits") {
      patterns.emplace_back(part.value("individual_digits", false) ? kDigit : R"(\p{N}+)");
    } else if (type == "Punctuation" && part.value("behavior", "Isolated") == "Contiguous") {
      patterns.emplace_back(R"([\p{P}\$\+<=>\^~\|`]+)");
    } else if (type == "ByteLevel") {
      if (part.value("use_regex", true)) patterns.emplace_back(kGpt2);
    } else {
      return std::nullopt;
    }
  }
  return patterns;
}

}  // namespace

const GgufPreTokenizer& gguf_pre_tokenizer(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const GgufPreTokenizer& kind : table())
    for (const char* one : kind.names) {
      if (name == one) return kind;
      known.emplace_back(one);
    }
  fail(ErrorKind::kUnsupported, "{}: tokenizer.ggml.pre {} is not supported{} Known are: {}", where, quoted(name),
       did_you_mean(name, known), fmt::join(known, ", "));
}

Json gguf_pre_tokenizer_json(const GgufPreTokenizer& kind) {
  Json parts = Json::array();
  const bool as_gpt2 = !kind.raw && kind.patterns.back() == kGpt2;
  for (size_t i = 0; i + (as_gpt2 ? 1 : 0) < kind.patterns.size(); ++i)
    parts.push_back(split_at_matches(kind.patterns[i]));
  if (!kind.raw) parts.push_back(to_byte_characters(as_gpt2));
  if (parts.size() == 1) return parts[0];
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

std::string gguf_pre_tokenizer_name(const Json& tokenizer) {
  const auto patterns = patterns_of(tokenizer.value("pre_tokenizer", Json()));
  const Json &model = tokenizer["model"], normalizer = tokenizer.value("normalizer", Json());
  const bool ignores = model.value("ignore_merges", false),
             composes = normalizer.is_object() && normalizer.value("type", "") == "NFC";
  const GgufPreTokenizer* best = nullptr;
  int best_likeness = -1;
  for (const GgufPreTokenizer& kind : table()) {
    if (!patterns || kind.raw || kind.patterns.size() != patterns->size()) continue;
    bool same = true;
    for (size_t i = 0; i < patterns->size() && same; ++i)
      same = written_out(kind.patterns[i]) == written_out((*patterns)[i]);
    // The rest is no reason to refuse: merges give a token that is a piece, and most texts are composed.
    const int likeness = (kind.ignores_merges == ignores) + (kind.composes == composes);
    if (same && likeness > best_likeness) best = &kind, best_likeness = likeness;
  }
  if (best) return best->names.front();
  fail(ErrorKind::kUnsupported, "tokenizer.json: pre_tokenizer: llama.cpp has no name for this way of cutting text{}",
       patterns ? fmt::format(": {}", fmt::join(*patterns, " then ")) : "");
}

}  // namespace transom
