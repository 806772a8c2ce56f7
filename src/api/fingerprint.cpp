#include "api/fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace nibble {
namespace {

/// Each bit of the result depends on all of the number's.
constexpr std::uint64_t scatter(std::uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

/// Numbers and texts, in their order.
class Digest {
 public:
  void add(std::uint64_t number) { value_ = scatter(value_ * 0x9e3779b97f4a7c15 + number + 1); }
  void add(std::string_view text) {
    PlaceHash hash;
    hash.add(0, std::as_bytes(std::span(text)));
    add(text.size());
    add(hash.sum());
  }
  std::uint64_t sum() const { return value_; }

  void add(const Null&) {}
  void add(const SymInt&) {}
  void add(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  void add(bool is_true) { add(std::uint64_t{is_true}); }
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(const ValueList& list) { add_all(list.items); }
  void add(const TensorValue& tensor) {
    add(static_cast<std::uint64_t>(tensor.dtype));
    add(static_cast<std::uint64_t>(tensor.staging));
    add_all(tensor.shape.dims());
    add(std::int64_t{tensor.constant});
    add(tensor.fixed);
  }
  void add(const IntList& list) { add_all(list); }
  void add(const DoubleList& list) { add_all(list); }
  void add(const BoolList& list) {
    add(std::uint64_t{list.size()});
    for (const bool one : list) add(one);
  }
  template <class List>
  void add_all(const List& list) {
    add(std::uint64_t{list.size()});
    for (const auto one : list) add_one(one);
  }

 private:
  void add_one(std::uint32_t id) { add(std::uint64_t{id}); }
  void add_one(std::int64_t number) { add(number); }
  void add_one(double number) { add(number); }

  std::uint64_t value_ = 0;
};

}  // namespace

std::uint64_t structure_of(const Graph& graph) {
  Digest digest;
  digest.add(std::uint64_t{graph.values.size()});
  for (const auto& value : graph.values) {
    digest.add(std::uint64_t{value.index()});
    std::visit([&](const auto& one) { digest.add(one); }, value);
  }
  digest.add(std::uint64_t{graph.nodes.size()});
  for (const auto& node : graph.nodes) {
    digest.add(node.op);
    digest.add_all(node.args);
  }
  digest.add(std::uint64_t{graph.constants.size()});
  for (const auto& constant : graph.constants) digest.add(std::uint64_t{constant.length});
  digest.add_all(graph.inputs);
  digest.add_all(graph.outputs);
  return digest.sum();
}

namespace {

/// The exporter names a constant by the SHA-256 of its bytes. Any other name says nothing of them.
bool tells_bytes(std::string_view name) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == 64 && std::ranges::all_of(name, is_hex);
}

}  // namespace

void PlaceHash::add(std::uint64_t place, std::span<const std::byte> bytes) {
  __extension__ using Wide = unsigned __int128;
  Wide sum = Wide{high_} << 64 | low_;
  const auto add_word = [&](std::uint64_t index, std::uint64_t word) { sum += Wide{word} * (scatter(index + 1) | 1); };
  const auto* from = bytes.data();
  const auto* const end = from + bytes.size();
  while (from != end) {
    std::uint64_t word = 0;
    // Weights are gigabytes: nothing but this may happen for each of their words.
    for (; place % 8 == 0 && end - from >= 8; place += 8, from += 8) {
      std::memcpy(&word, from, 8);
      add_word(place / 8, word);
    }
    const auto skipped = place % 8;
    const auto count = std::min<std::size_t>(8 - skipped, static_cast<std::size_t>(end - from));
    word = 0;
    std::memcpy(&word, from, count);
    // The bytes that come in other calls are zero here: sums of a word's parts are that of the word.
    add_word(place / 8, word << (8 * skipped));
    place += count;
    from += count;
  }
  low_ = static_cast<std::uint64_t>(sum);
  high_ = static_cast<std::uint64_t>(sum >> 64);
}

std::uint64_t PlaceHash::sum() const { return scatter(low_ ^ scatter(high_)); }

FingerprintSource::FingerprintSource(const Graph& graph, ConstantSource& inner) : inner_(inner) {
  Digest names;
  for (const auto& constant : graph.constants) {
    names.add(constant.key);
    has_name_.push_back(tells_bytes(constant.key) ? 1 : 0);
  }
  named_ = {structure_of(graph), names.sum()};
}

Status FingerprintSource::read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) {
  TRY(inner_.read(constant, offset, to));
  if (constant < has_name_.size() && has_name_[constant] == 0) {
    others_.add((std::uint64_t{constant} << 40) + offset, to);
  }
  return {};
}

Fingerprint FingerprintSource::get() const {
  Digest weights;
  weights.add(named_.weights);
  weights.add(others_.sum());
  return {named_.structure, weights.sum()};
}

}  // namespace nibble
