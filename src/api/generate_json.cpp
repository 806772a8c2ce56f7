#include "api/generate_json.hpp"

#include <limits>
#include <optional>

namespace nibble {
namespace {

std::unexpected<Error> wrong(std::string_view name, std::string_view wanted) {
  return fail(ErrorCode::invalid_argument, "{} must be {}", name, wanted);
}

std::optional<std::int64_t> whole_of(const Json& json) {
  if (const auto* value = json.as<std::int64_t>()) return *value;
  const auto* value = json.as<std::uint64_t>();
  if (value == nullptr || *value > std::numeric_limits<std::int64_t>::max()) return {};
  return static_cast<std::int64_t>(*value);
}

std::optional<std::int32_t> token_of(const Json& json) {
  const auto value = whole_of(json);
  if (!value || *value < 0 || *value > std::numeric_limits<std::int32_t>::max()) return {};
  return static_cast<std::int32_t>(*value);
}

Status read(std::string_view name, const Json& json, double& to) {
  const auto value = json.number();
  if (!value) return wrong(name, "a number");
  to = *value;
  return {};
}

Status read(std::string_view name, const Json& json, std::int64_t& to) {
  const auto value = whole_of(json);
  if (!value) return wrong(name, "a whole number");
  to = *value;
  return {};
}

Status read(std::string_view name, const Json& json, std::uint64_t& to) {
  const auto* value = json.as<std::uint64_t>();
  if (value == nullptr) return wrong(name, "a whole number from 0 on");
  to = *value;
  return {};
}

Status read(std::string_view name, const Json& json, bool& to) {
  const auto* value = json.as<bool>();
  if (value == nullptr) return wrong(name, "true or false");
  to = *value;
  return {};
}

Status read(std::string_view name, const Json& json, std::vector<std::int32_t>& to) {
  const auto* items = json.as<Json::Array>();
  if (items == nullptr) return wrong(name, "a list of token ids");
  for (const auto& item : *items) {
    const auto token = token_of(item);
    if (!token) return wrong(name, "a list of token ids");
    to.push_back(*token);
  }
  return {};
}

Status read(std::string_view name, const Json& json, std::vector<TokenBias>& to) {
  const auto* items = json.as<Json::Array>();
  if (items == nullptr) return wrong(name, "a list of [token id, bias]");
  for (const auto& item : *items) {
    const auto* pair = item.as<Json::Array>();
    const bool is_pair = pair != nullptr && pair->size() == 2;
    const auto token = is_pair ? token_of(pair->front()) : std::nullopt;
    const auto bias = is_pair ? pair->back().number() : std::nullopt;
    if (!token || !bias) return wrong(name, "a list of [token id, bias]");
    to.push_back({*token, *bias});
  }
  return {};
}

/// One of several members by its name.
Status read_member(GenerateOptions& to, std::string_view name, const Json& json) {
  if (name == "temperature") return read(name, json, to.temperature);
  if (name == "top_k") return read(name, json, to.top_k);
  if (name == "top_p") return read(name, json, to.top_p);
  if (name == "min_p") return read(name, json, to.min_p);
  if (name == "repetition_penalty") return read(name, json, to.repetition_penalty);
  if (name == "repetition_window") return read(name, json, to.repetition_window);
  if (name == "presence_penalty") return read(name, json, to.presence_penalty);
  if (name == "frequency_penalty") return read(name, json, to.frequency_penalty);
  if (name == "seed") return read(name, json, to.seed);
  if (name == "logit_bias") return read(name, json, to.biases);
  if (name == "logprobs") return read(name, json, to.logprobs);
  if (name == "top_logprobs") return read(name, json, to.top_logprobs);
  if (name == "stop_ids") return read(name, json, to.stop_ids);
  if (name == "max_tokens") return read(name, json, to.max_tokens);
  return fail(ErrorCode::invalid_argument, "there is no setting '{}' of a generation", name);
}

std::string_view reason_of(Finish finish) {
  switch (finish) {
    case Finish::none: return "";
    case Finish::stop_id:
    case Finish::stop_text: return "stop";
    case Finish::length:
    case Finish::context: return "length";
    case Finish::cancelled: return "cancelled";
  }
  return "";
}

double rate(std::int64_t tokens, double from_ms, double to_ms) {
  return tokens > 0 && to_ms > from_ms ? static_cast<double>(tokens) * 1e3 / (to_ms - from_ms) : 0;
}

}  // namespace

Result<GenerateOptions> generate_options(std::string_view text) {
  const auto json = Json::parse(text);
  const auto* members = json ? json->as<Json::Object>() : nullptr;
  if (members == nullptr) return wrong("the settings of a generation", "a JSON object");
  GenerateOptions options;
  for (const auto& [name, value] : *members) TRY(read_member(options, name, value));
  return options;
}

Json to_json(const LanguageModelInfo& info) {
  return {{"vocabulary", info.vocabulary},
          {"context_length", info.context_length},
          {"chunk", info.chunk},
          {"model_bytes", info.model_bytes},
          {"session_bytes", info.session_bytes}};
}

Json to_json(const GenerateStats& stats) {
  const std::int64_t computed = stats.prompt_tokens - stats.cached_tokens;
  const double prompt_rate = rate(computed, stats.inference_start_ms, stats.prompt_eval_end_ms);
  const double rest_rate = rate(stats.generated_tokens - 1, stats.first_token_ms, stats.inference_end_ms);
  Json json = {
      {"prompt_tokens", stats.prompt_tokens},
      {"cached_tokens", stats.cached_tokens},
      {"generated_tokens", stats.generated_tokens},
      {"calls", stats.calls},
      {"dispatches", stats.dispatches},
      {"SCALING_FACTOR_UNITS_PER_SECOND", 1000},
      {"model_load_start_ms", stats.model_load_start_ms},
      {"model_load_end_ms", stats.model_load_end_ms},
      {"inference_start_ms", stats.inference_start_ms},
      {"prompt_eval_end_ms", stats.prompt_eval_end_ms},
      {"first_token_ms", stats.first_token_ms},
      {"inference_end_ms", stats.inference_end_ms},
      {"model_execution_start_ms", stats.model_execution_start_ms},
      {"model_execution_end_ms", stats.model_execution_end_ms},
      {"aggregate_sampling_time_ms", stats.aggregate_sampling_time_ms},
      {"aggregate_model_execution_time_ms", stats.aggregate_model_execution_time_ms},
      {"time_to_first_token_ms", stats.first_token_ms > 0 ? stats.first_token_ms - stats.inference_start_ms : 0.0},
      {"prompt_tokens_per_second", prompt_rate},
      {"generated_tokens_per_second", rest_rate},
      {"prefill_token_per_sec", prompt_rate},
      {"decode_token_per_sec", rest_rate},
      {"finish", to_string(stats.finish)},
      {"finish_reason", nullptr},
  };
  if (stats.finish != Finish::none) json["finish_reason"] = reason_of(stats.finish);
  return json;
}

}  // namespace nibble
