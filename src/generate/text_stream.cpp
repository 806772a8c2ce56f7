#include "generate/text_stream.hpp"

#include <algorithm>
#include <utility>

#include "generate/sentence.hpp"

namespace nibble::generate {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// For each beginning of the text, the longest shorter beginning that it ends with (Knuth, Morris and Pratt).
std::vector<std::size_t> borders_of(std::string_view text) {
  std::vector<std::size_t> borders(text.size() + 1);
  std::size_t border = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border]) border = borders[border];
    if (text[i] == text[border]) ++border;
    borders[i + 1] = border;
  }
  return borders;
}

}  // namespace

Result<TextStream> TextStream::make(std::vector<std::string> stops) {
  TextStream stream;
  for (auto& text : stops) {
    const auto number = stream.stops_.size();
    if (text.empty()) return refuse({"stop string ", number, " is empty"});
    TextStream reader;
    std::string read(reader.push(text));
    read += reader.finish();
    if (read != text) return refuse({"stop string ", number, " is not UTF-8"});
    auto borders = borders_of(text);
    stream.stops_.push_back({std::move(text), std::move(borders)});
  }
  return stream;
}

std::string_view TextStream::push(std::string_view bytes) {
  out_.clear();
  for (const char byte : bytes) {
    if (stopped_) break;
    take(byte);
  }
  return out_;
}

std::string_view TextStream::finish() {
  out_.clear();
  if (stopped_) return out_;
  if (length_ > 0) end_character(false);
  if (!stopped_ && !stops_.empty()) {
    const auto& stop = stops_[holder_];
    out_.append(stop.text, 0, stop.matched);
    for (auto& each : stops_) each.matched = 0;
  }
  return out_;
}

/// The table of well-formed bytes: only the second byte of a character has limits of its own.
void TextStream::take(char byte) {
  const auto b = static_cast<unsigned char>(byte);
  if (length_ > 0 && (b < lowest_ || b > highest_)) {
    end_character(false);
    if (stopped_) return;
  }
  character_[length_++] = byte;
  if (length_ > 1) {
    lowest_ = 0x80;
    highest_ = 0xbf;
  } else {
    lowest_ = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
    highest_ = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
    wanted_ = b < 0x80 ? 1 : b < 0xc2 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
  }
  if (wanted_ == 0)
    end_character(false);
  else if (length_ == wanted_)
    end_character(true);
}

void TextStream::end_character(bool is_whole) {
  const auto text = is_whole ? std::string_view(character_.data(), length_) : kReplacement;
  length_ = 0;
  for (const char byte : text) {
    if (!stopped_) match(byte);
  }
}

/// Adds a byte to the text, and hands out what can no longer be a part of a stop string.
void TextStream::match(char byte) {
  if (stops_.empty()) return out_.push_back(byte);
  const auto before = holder_;
  const auto held = stops_[before].matched;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    auto& stop = stops_[i];
    while (stop.matched > 0 && stop.text[stop.matched] != byte) stop.matched = stop.borders[stop.matched];
    if (stop.text[stop.matched] == byte) ++stop.matched;
    const bool is_whole = stop.matched == stop.text.size();
    if (is_whole && (!stopped_ || stop.matched > longest)) stopped_ = i;
    const bool is_longest = is_whole ? stopped_ == i : !stopped_ && stop.matched > longest;
    if (!is_longest) continue;
    holder_ = i;
    longest = stop.matched;
  }
  // The stop string that held the text back before, then the byte: its front is free.
  const auto freed = held + 1 - longest;
  out_.append(stops_[before].text, 0, std::min(freed, held));
  if (freed > held) out_.push_back(byte);
}

}  // namespace nibble::generate
