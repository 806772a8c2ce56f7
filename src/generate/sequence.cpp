#include "generate/sequence.hpp"

#include <algorithm>
#include <utility>

#include "generate/sentence.hpp"

namespace nibble {

std::string_view to_string(Finish reason) {
  switch (reason) {
    case Finish::none: return "none";
    case Finish::stop_id: return "stop_id";
    case Finish::stop_text: return "stop_text";
    case Finish::length: return "length";
    case Finish::context: return "context";
    case Finish::cancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace nibble

namespace nibble::generate {

Result<std::int64_t> Sequence::begin(std::span<const std::int32_t> prompt, Ends ends) {
  const auto count = static_cast<std::int64_t>(prompt.size());
  if (count == 0) return refuse({"the prompt has no tokens"});
  if (count > context_) {
    return refuse({"the prompt has ", count, " tokens, but the context holds ", context_});
  }
  if (ends.max_tokens < 0) {
    return refuse({"max_tokens is ", ends.max_tokens, ", but it must be a whole number from 0 on"});
  }
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (is_token(prompt[i])) continue;
    return refuse(ErrorCode::out_of_range,
                  {"token ", i, " of the prompt is ", prompt[i], ", but the vocabulary has ", vocabulary_, " tokens"});
  }
  const auto known = std::span(tokens_).first(static_cast<std::size_t>(computed_));
  const auto common = std::ranges::mismatch(known, prompt).in1 - known.begin();
  // The prompt may be a part of what is held.
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  tokens_ = std::move(tokens);
  computed_ = std::min<std::int64_t>(common, count - 1);
  prompt_ = count;
  ends_ = std::move(ends);
  finish_ = limit();
  return computed_;
}

std::span<const std::int32_t> Sequence::next(std::int64_t most) const {
  const auto rest = std::span(tokens_).subspan(static_cast<std::size_t>(computed_));
  return rest.first(std::min(rest.size(), static_cast<std::size_t>(std::max<std::int64_t>(most, 0))));
}

void Sequence::advance(std::int64_t count) { computed_ += std::clamp<std::int64_t>(count, 0, size() - computed_); }

/// The number of tokens has an end, and so has the context. What comes first is the reason.
Finish Sequence::limit() const {
  if (ends_.max_tokens > 0 && generated() >= ends_.max_tokens) return Finish::length;
  return room() == 0 ? Finish::context : Finish::none;
}

Result<Finish> Sequence::push(std::int32_t token) {
  if (finish_ != Finish::none) return refuse({"the generation has ended: ", to_string(finish_)});
  if (tokens_.empty()) return refuse({"a token is chosen, but there is no prompt"});
  if (computed_ < size()) {
    return refuse({"a token is chosen, but ", size() - computed_, " tokens are still to be computed"});
  }
  if (!is_token(token)) {
    return refuse(ErrorCode::out_of_range,
                  {"the chosen token is ", token, ", but the vocabulary has ", vocabulary_, " tokens"});
  }
  tokens_.push_back(token);
  finish_ = std::ranges::find(ends_.stop_ids, token) != ends_.stop_ids.end() ? Finish::stop_id : limit();
  return finish_;
}

void Sequence::end(Finish reason) {
  const bool by_number = finish_ == Finish::length || finish_ == Finish::context;
  if (finish_ == Finish::none || (by_number && reason == Finish::stop_text)) finish_ = reason;
}

Status Sequence::rewind(std::int64_t position) {
  if (position < 0 || position > computed_) {
    return refuse(ErrorCode::out_of_range,
                  {"cannot rewind to position ", position, ": ", computed_, " tokens are computed"});
  }
  if (position == size()) return {};
  tokens_.resize(static_cast<std::size_t>(position));
  computed_ = position;
  prompt_ = std::min(prompt_, position);
  end(Finish::cancelled);
  return {};
}

}  // namespace nibble::generate
