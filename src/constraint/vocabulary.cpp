#include "constraint/vocabulary.hpp"

#include <algorithm>
#include <utility>

#include "generate/sentence.hpp"

namespace nibble::constraint {

Result<Vocabulary> Vocabulary::make(std::string texts, std::vector<std::uint32_t> ends,
                                    std::vector<std::int32_t> stop_ids) {
  if (!std::ranges::is_sorted(ends) || (ends.empty() ? 0 : ends.back()) != texts.size()) {
    return generate::refuse({"the texts of the tokens do not end where they should"});
  }
  Vocabulary made;
  made.texts_ = std::move(texts);
  made.ends_ = std::move(ends);
  made.stop_ids_ = std::move(stop_ids);
  for (std::uint32_t id = 0; id < made.size(); ++id) {
    const bool is_stop = std::ranges::find(made.stop_ids_, static_cast<std::int32_t>(id)) != made.stop_ids_.end();
    if (!is_stop && !made.text_of(id).empty()) made.order_.push_back({.id = id});
  }
  // A heap, because its code is small.
  const auto text_of = [&](const Entry& entry) { return made.text_of(entry.id); };
  std::ranges::make_heap(made.order_, {}, text_of);
  std::ranges::sort_heap(made.order_, {}, text_of);
  std::string_view before;
  for (auto& [id, shared] : made.order_) {
    const auto text = made.text_of(id);
    shared = static_cast<std::uint32_t>(std::ranges::mismatch(before, text).in1 - before.begin());
    before = text;
  }
  return made;
}

std::string_view Vocabulary::text_of(std::size_t id) const {
  const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
  return std::string_view(texts_).substr(begin, ends_[id] - begin);
}

}  // namespace nibble::constraint
