// The head of a saved session's file, and what tells programs apart.
#include "api/saved_state.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "support/expect.hpp"
#include "support/graph_builder.hpp"

namespace nibble {
namespace {

using test::fails_with;
using test::succeeds;

using FileBytes = std::vector<std::byte>;

constexpr Fingerprint kProgram{.structure = 7, .weights = 8};
constexpr std::uint64_t kData = 32;

const std::vector<StateDesc> kStates = {
    {.value = 0, .buffer = 0, .role = "key_cache", .dtype = DType::f32, .shape = {1, 10, 4}, .row_axis = 1},
    {.value = 1, .buffer = 1, .role = "self", .dtype = DType::f32, .shape = {4}, .row_axis = StateDesc::kNoRows}};

const std::vector<std::byte> kNote(5, std::byte{9});

/// With the checksum that fits.
FileBytes sealed(FileBytes bytes) {
  PlaceHash hash;
  hash.add(0, bytes);
  const auto sum = hash.sum();
  const auto from = std::as_bytes(std::span(&sum, 1));
  bytes.insert(bytes.end(), from.begin(), from.end());
  return bytes;
}

FileBytes saved_file(std::vector<std::int64_t> rows = {1, 0}, std::vector<StateDesc> states = kStates) {
  auto bytes = saved_head(kProgram, states, rows, kNote, kData);
  bytes.resize(bytes.size() + kData, std::byte{3});
  return bytes;
}

Result<SavedState> check(const FileBytes& bytes, const Fingerprint& program = kProgram) {
  return check_saved(MemoryBytes(bytes), "'x'", program, kStates);
}

TEST(SavedState, is_read_as_it_was_written) {
  const auto saved = check(sealed(saved_file()));
  ASSERT_TRUE(succeeds(saved));
  EXPECT_EQ(saved->rows, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(saved->note, kNote);
  EXPECT_EQ(saved->data_bytes, kData);
  EXPECT_EQ(saved->data_offset, saved_file().size() - kData);
}

TEST(SavedState, names_what_is_wrong_with_a_file) {
  struct Broken {
    const char* wanted;
    std::function<void(FileBytes&)> change;
  };
  const auto put = [](std::size_t at, auto value) {
    return [at, value](FileBytes& bytes) { std::memcpy(bytes.data() + at, &value, sizeof(value)); };
  };
  constexpr std::size_t kVersion = 8;
  constexpr std::size_t kCount = 12;
  constexpr std::size_t kNoteBytes = 32;
  constexpr std::size_t kDataBytes = 40;
  constexpr std::size_t kFirst = 48;
  constexpr std::size_t kRank = kFirst + 36;
  constexpr std::size_t kAxis = kFirst + 104;
  constexpr std::size_t kRows = kFirst + 112;
  constexpr auto kHuge = ~std::uint64_t{0};
  const Broken table[] = {
      {"'x' is not a saved session", [](FileBytes& bytes) { bytes.clear(); }},
      {"'x' is not a saved session", put(0, 'M')},
      {"is a saved session of version 2, but this Nibble reads version 1", put(kVersion, std::uint32_t{2})},
      {"is cut off or was added to", put(kCount, std::uint32_t{3})},
      {"is cut off or was added to", put(kCount, ~std::uint32_t{0})},
      {"is cut off or was added to", put(kNoteBytes, kHuge)},
      {"is cut off or was added to", put(kNoteBytes, std::uint64_t{0})},
      {"is cut off or was added to", put(kDataBytes, kHuge)},
      {"is cut off or was added to", put(kDataBytes, kHuge - 280)},
      {"is cut off or was added to", [](FileBytes& bytes) { bytes.pop_back(); }},
      {"is cut off or was added to", [](FileBytes& bytes) { bytes.push_back({}); }},
      {"'x' was saved by another program", put(16, std::uint64_t{6})},
      {"'x' was saved by a program with other weights", put(24, std::uint64_t{6})},
      {"its state 0 is not key_cache of type float32 and shape [1, 10, 4] as here", put(kFirst, 'q')},
      {"its state 0 is not key_cache", put(kFirst + 32, static_cast<std::uint32_t>(DType::f16))},
      {"its state 0 is not key_cache", put(kFirst + 32, ~std::uint32_t{0})},
      {"its state 0 is not key_cache", put(kRank, ~std::uint32_t{0})},
      {"its state 0 is not key_cache", put(kRank + 4, std::int64_t{2})},
      {"its state 0 is not key_cache", put(kAxis, std::int64_t{2})},
      {"says that 11 of 10 rows of its state 0 are in use", put(kRows, std::int64_t{11})},
      {"says that -1 of 10 rows of its state 0 are in use", put(kRows, std::int64_t{-1})},
      {"says that 1 of 0 rows of its state 1 are in use", put(kRows + 120, std::int64_t{1})},
  };
  for (const auto& broken : table) {
    auto bytes = saved_file();
    broken.change(bytes);
    EXPECT_TRUE(fails_with(check(sealed(bytes)), broken.wanted));
  }
}

TEST(SavedState, with_fewer_states_is_refused) {
  auto bytes = saved_head(kProgram, std::span(kStates).first(1), std::vector<std::int64_t>{1}, {}, 0);
  EXPECT_TRUE(fails_with(check(sealed(bytes)), "it has 1 states, but there are 2 here"));
}

TEST(SavedState, of_which_any_byte_changed_is_refused) {
  const auto whole = sealed(saved_file());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 7}) {
      auto bytes = whole;
      bytes[at] ^= std::byte(1 << bit);
      EXPECT_FALSE(check(bytes)) << at;
    }
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(check({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)})) << length;
  }
}

TEST(PlaceHash, does_not_depend_on_how_bytes_are_cut_or_ordered) {
  FileBytes bytes(61);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(static_cast<std::uint8_t>(i * 37 + 5));
  PlaceHash whole;
  whole.add(3, bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    PlaceHash parts;
    parts.add(3 + cut, std::span(bytes).subspan(cut));
    parts.add(3, std::span(bytes).first(cut));
    EXPECT_EQ(parts.sum(), whole.sum()) << cut;
  }
  PlaceHash elsewhere;
  elsewhere.add(4, bytes);
  EXPECT_NE(elsewhere.sum(), whole.sum());
}

/// Constants of ones.
class Ones final : public ConstantSource {
 public:
  explicit Ones(std::byte one = std::byte{1}) : one_(one) {}
  Status read(std::uint32_t, std::uint64_t, std::span<std::byte> to) override {
    std::ranges::fill(to, one_);
    return {};
  }

 private:
  std::byte one_;
};

/// A product with a constant.
Graph product(std::string key = {}, double factor = 1) {
  test::GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4}));
  const auto weight = b.constant(DType::f32, {4});
  const auto y = b.tensor(DType::f32, {4});
  b.op("aten.add.Tensor", {x, weight, b.number(factor), y});
  b.output(y);
  b.graph.constants.front().key = std::move(key);
  return b.graph;
}

Fingerprint fingerprint_of(const Graph& graph, std::byte one = std::byte{1}) {
  Ones ones(one);
  FingerprintSource source(graph, ones);
  FileBytes to(16);
  EXPECT_TRUE(succeeds(source.read(0, 0, to)));
  EXPECT_EQ(to.front(), one);
  return source.get();
}

TEST(Fingerprint, tells_structures_and_weights_apart) {
  const auto same = fingerprint_of(product());
  EXPECT_EQ(fingerprint_of(product()), same);
  const auto other = fingerprint_of(product({}, 2));
  EXPECT_NE(other.structure, same.structure);
  EXPECT_EQ(other.weights, same.weights);
  const auto heavier = fingerprint_of(product(), std::byte{2});
  EXPECT_EQ(heavier.structure, same.structure);
  EXPECT_NE(heavier.weights, same.weights);
}

TEST(Fingerprint, takes_a_constants_hash_for_its_bytes) {
  const std::string hash(64, 'a');
  const std::string other(64, 'b');
  const auto named = fingerprint_of(product(hash));
  EXPECT_EQ(fingerprint_of(product(hash), std::byte{2}), named);
  EXPECT_EQ(fingerprint_of(product(other)).structure, named.structure);
  EXPECT_NE(fingerprint_of(product(other)).weights, named.weights);
}

TEST(Fingerprint, does_not_take_another_name_for_a_hash) {
  for (const auto& name : {std::string("layers.0.weight"), std::string(64, 'x'), std::string(65, 'a')}) {
    EXPECT_NE(fingerprint_of(product(name), std::byte{2}), fingerprint_of(product(name))) << name;
  }
}

}  // namespace
}  // namespace nibble
