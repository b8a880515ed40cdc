// SPDX-License-Identifier: Apache-2.0
#include "files/config/config.h"

#include <charconv>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/known_keys.h"

namespace transom {

struct Config::Fields {
  // The keys that were asked for. Shared by copies: they are read in place of their original.
  class AskedKeys {
   public:
    void add(std::string_view key) {
      const std::lock_guard lock(mutex_);
      if (!keys_.contains(key)) keys_.emplace(key);
    }
    bool contains(std::string_view key) const {
      const std::lock_guard lock(mutex_);
      return keys_.contains(key);
    }

   private:
    mutable std::mutex mutex_;
    std::set<std::string, std::less<>> keys_;
  };

  Json json;
  std::shared_ptr<AskedKeys> asked = std::make_shared<AskedKeys>();
};

bool was_read(const Config& config, const std::string& key) { return config.fields().asked->contains(key); }

const Json& json_of(const Config& config) { return config.fields().json; }
Config make_config(Json json, std::string where) {
  return {std::make_unique<Config::Fields>(Config::Fields{.json = std::move(json)}), std::move(where)};
}
void set_field(Config& config, std::string_view key, Json value) {
  config.fields().json[std::string(key)] = std::move(value);
}

namespace {

// Python writes infinity as the bare word Infinity, which JSON has not; Transformers 5 writes {"__float__":
// "Infinity"}.
std::string with_tagged_infinity(const std::string& text) {
  constexpr std::string_view kWord = "Infinity";
  std::string result;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      result += c;
      result += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && c == kWord[0] && (i == 0 || text[i - 1] != '-') && text.compare(i, kWord.size(), kWord) == 0) {
      result += R"({"__float__": "Infinity"})";
      i += kWord.size() - 1;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

Config Config::read(const std::filesystem::path& path) {
  const std::string text = read_file(path, uint64_t{1} << 26);
  return parse(text.find("Infinity") == std::string::npos ? text : with_tagged_infinity(text), path.string());
}

Config Config::parse(std::string_view text, const std::string& where) {
  Json json = parse_json(text, where);
  if (!json.is_object()) fail("{}: expected a JSON object", where);
  return make_config(std::move(json), where);
}

Config::Config(std::unique_ptr<Fields> fields, std::string where)
    : fields_(std::move(fields)), where_(std::move(where)) {}
Config::Config(const Config& other) : fields_(std::make_unique<Fields>(*other.fields_)), where_(other.where_) {}
Config& Config::operator=(const Config& other) {
  *fields_ = *other.fields_;
  where_ = other.where_;
  return *this;
}
Config::~Config() = default;

namespace {

// The value of a field; null where it is absent.
const Json* find(const Config& config, std::string_view key) {
  const Json& json = json_of(config);
  config.fields().asked->add(key);
  const auto found = json.find(std::string(key));
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

template <typename T>
T checked(const Config& config, std::string_view key, bool fits, const Json& value, std::string_view expected) {
  if (!fits)
    fail("{}: {}: expected {}, found {}", config.where(), key, expected,
         quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return value.get<T>();
}

}  // namespace

bool Config::has(std::string_view key) const { return find(*this, key) != nullptr; }

namespace {

// Numbers of layers, heads, groups, experts: models loop over them, so that an absurd one must not come so far.
constexpr int64_t kMaximumModules = 1 << 16;
bool counts_modules(std::string_view key) {
  for (const std::string_view end : {"layers", "layer", "heads", "head", "groups", "group_num", "experts"})
    if (key.ends_with(end)) return true;
  return false;
}

[[noreturn]] void missing(const std::string& where, std::string_view key) { fail("{}: {} is missing", where, key); }

}  // namespace

int64_t Config::get_int(std::string_view key) const {
  const Json* value = find(*this, key);
  if (!value) missing(where_, key);
  const bool whole =
      value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{1} << 62);
  const auto number = checked<int64_t>(*this, key, whole, *value, "a whole number");
  if (counts_modules(key)) checked<int64_t>(*this, key, number <= kMaximumModules, *value, "at most 65536");
  return number;
}
int64_t Config::get_int(std::string_view key, int64_t otherwise) const { return has(key) ? get_int(key) : otherwise; }

double Config::get_float(std::string_view key) const {
  const Json* value = find(*this, key);
  if (!value) missing(where_, key);
  return checked<double>(*this, key, value->is_number(), *value, "a number");
}
double Config::get_float(std::string_view key, double otherwise) const { return has(key) ? get_float(key) : otherwise; }

bool Config::get_bool(std::string_view key) const {
  const Json* value = find(*this, key);
  if (!value) missing(where_, key);
  return checked<bool>(*this, key, value->is_boolean(), *value, "true or false");
}
bool Config::get_bool(std::string_view key, bool otherwise) const { return has(key) ? get_bool(key) : otherwise; }

std::string Config::get_string(std::string_view key) const {
  const Json* value = find(*this, key);
  if (!value) missing(where_, key);
  return checked<std::string>(*this, key, value->is_string(), *value, "a string");
}
std::string Config::get_string(std::string_view key, const std::string& otherwise) const {
  return has(key) ? get_string(key) : otherwise;
}

std::vector<std::string> Config::get_strings(std::string_view key) const {
  const Json* value = find(*this, key);
  if (!value) return {};
  bool fits = value->is_array();
  if (fits)
    for (const Json& item : *value) fits &= item.is_string();
  return checked<std::vector<std::string>>(*this, key, fits, *value, "a list of strings");
}

std::map<int64_t, std::string> Config::get_map(std::string_view key) const {
  const Json* value = find(*this, key);
  std::map<int64_t, std::string> result;
  if (!value) return result;
  checked<Json>(*this, key, value->is_object(), *value, "an object of numbers and names");
  for (const auto& [name, item] : value->items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0)
      fail("{}: {}: expected a number as the key of a class, found {}", where_, key, quoted(name));
    result[id] = checked<std::string>(*this, key, item.is_string(), item, "a string");
  }
  return result;
}

namespace {

bool is_int(const Json& value) {
  return value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{1} << 62);
}

}  // namespace

std::vector<int64_t> Config::get_ints(std::string_view key, std::vector<int64_t> otherwise) const {
  const Json* value = find(*this, key);
  if (!value) return otherwise;
  bool fits = value->is_array();
  if (fits)
    for (const Json& item : *value) fits &= is_int(item);
  return checked<std::vector<int64_t>>(*this, key, fits, *value, "a list of whole numbers");
}

std::array<int64_t, 2> Config::get_pair(std::string_view key, int64_t otherwise) const {
  const Json* value = find(*this, key);
  if (!value) return {otherwise, otherwise};
  if (is_int(*value)) return {value->get<int64_t>(), value->get<int64_t>()};
  const bool fits = value->is_array() && value->size() == 2 && is_int((*value)[0]) && is_int((*value)[1]);
  return checked<std::array<int64_t, 2>>(*this, key, fits, *value, "a whole number, or a list of two");
}

Config Config::get_object(std::string_view key) const {
  const Json* value = find(*this, key);
  if (!value) return make_config(Json::object(), where_);
  return make_config(checked<Json>(*this, key, value->is_object(), *value, "an object"),
                     fmt::format("{}: {}", where_, key));
}

std::vector<std::string> Config::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : fields_->json.items()) result.push_back(key);
  return result;
}

std::string Config::get_json(std::string_view key) const {
  const Json* value = find(*this, key);
  return value ? dump_json(*value) : "null";
}

void Config::set_json(std::string_view key, std::string_view json) {
  set_field(*this, key, parse_json(json, fmt::format("{}: {}", where_, key)));
}

std::string Config::dump() const {
  const nlohmann::json sorted = fields_->json;  // its objects keep their keys sorted
  return dump_json(Json(sorted), 2) + "\n";
}

}  // namespace transom
