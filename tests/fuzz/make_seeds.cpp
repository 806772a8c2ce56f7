// make_seeds FOLDER [FILE.pte…] writes FOLDER/pte and FOLDER/blob, and the same for the other targets that take files
// or blobs: programs made by the tests' builders, and the given ones with the blobs inside them. FOLDER/grammar gets
// grammars, FOLDER/tuning tunings.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "program/file.hpp"
#include "program/program.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace {

using namespace nibble;        // NOLINT(google-build-using-namespace): a program of one file
using namespace nibble::test;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

/// Larger seeds make the fuzzer slow and teach it little.
constexpr std::size_t kMaxSeedBytes = 32768;
constexpr const char* kFileDoors[] = {"pte", "web", "capi"};
constexpr const char* kBlobDoors[] = {"blob", "graph", "backend"};

void save(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// The blob inside a file, its keys replaced by the sizes of their data: that is what fuzz_blob looks up.
std::optional<Bytes> self_contained_blob(std::span<const std::byte> file) {
  const auto head = read_head(file, file.size());
  if (!head) return std::nullopt;
  const auto container = read_container(file.first(head->program_size), *head);
  if (!container) return std::nullopt;
  const auto source = file.subspan(container->blob.offset, container->blob.size);
  Bytes blob(source.begin(), source.end());
  for (const auto& [key, range] : container->named) {
    const std::string number = fmt::format("{:0{}}", range.size, key.size());
    if (number.size() != key.size()) continue;
    const auto old_bytes = std::as_bytes(std::span(key));
    for (auto at = blob.begin();; ++at) {
      at = std::search(at, blob.end(), old_bytes.begin(), old_bytes.end());
      if (at == blob.end()) break;
      std::ranges::copy(std::as_bytes(std::span(number)), at);
    }
  }
  return blob;
}

void add(const fs::path& folder, const std::string& name, std::span<const std::byte> file) {
  for (const auto* door : kFileDoors) {
    if (file.size() <= kMaxSeedBytes) save(folder / door / name, file);
  }
  const auto blob = self_contained_blob(file);
  if (!blob || blob->size() > kMaxSeedBytes) return;
  for (const auto* door : kBlobDoors) save(folder / door / name, *blob);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: make_seeds FOLDER [FILE.pte...]\n", stderr);
    return 2;
  }
  const fs::path folder = argv[1];
  for (const auto* door : kFileDoors) fs::create_directories(folder / door);
  for (const auto* door : kBlobDoors) fs::create_directories(folder / door);

  auto everything = describe(every_kind_blob(), {.dynamic = true});
  everything.methods.push_back(
      constant_method("constants", {std::int64_t{3}, true, 0.5, std::string("text"), std::vector<std::int64_t>{0, 0},
                                    std::vector<double>{1.5}, std::vector<bool>{true}, std::monostate{}}));
  auto inside = describe(every_kind_blob());
  inside.inline_blobs.push_back(inside.segments[0].bytes);
  inside.segments.clear();
  inside.methods[0].delegates[0].location = 0;
  inside.extended_header = false;
  add(folder, "embedding", make_pte(embedding_blob()));
  // A language model, so that targets with a device generate.
  std::vector<float> logits(64);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  add(folder, "next_token", make_pte(next_token_blob(logits, 4, 16), {.dynamic = true}));
  add(folder, "everything", write_pte(everything));
  add(folder, "inside", write_pte(inside));

  fs::create_directories(folder / "grammar");
  const std::string_view grammars[] = {
      "root ::= ws (\"yes\" | [^a-c\\n\"]+ x{2,3})? # text\nws ::= [ \\t]*\nx ::= \"(\" x? \")\" | . | \"\\u00e9\"",
      "root ::= list\nlist ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= list | [0-9]{1,9}",
  };
  for (const auto& text : grammars) {
    save(folder / "grammar" / fmt::format("grammar{}", text.size()), std::as_bytes(std::span(text)));
  }

  fs::create_directories(folder / "tuning");
  const std::string_view tunings[] = {
      R"({"choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]}]})",
      R"({"tunings": [{"device": "A", "driver": "1", "engine": "dawn", "nibble": "0.1.0", "ended": "stopped", "choices": [
        {"choice": "product", "variant": "flat", "rows": [4, 4], "width": [64, 64], "depth": [2, 9], "traits": 4,
         "before": "tile", "ops": ["op"], "times": {"tile": 9.5, "flat": 2}},
        {"choice": "product", "variant": "flat", "rows": [4, 16], "width": [64, 64], "traits": 4}], "refused": ["x"]},
       {"device": "B", "driver": "", "engine": "", "nibble": "0.1.0", "choices": []}]})",
  };
  for (const auto& text : tunings) {
    save(folder / "tuning" / fmt::format("tuning{}", text.size()), std::as_bytes(std::span(text)));
  }

  for (int i = 2; i < argc; ++i) {
    const auto file = read_text(argv[i]);
    if (!file) {
      fmt::print(stderr, "make_seeds: {}\n", file.error().message);
      return 1;
    }
    add(folder, fmt::format("program{}", i - 1), std::as_bytes(std::span(*file)));
  }
  return 0;
}
