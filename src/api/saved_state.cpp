#include "api/saved_state.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "graph/size.hpp"

namespace nibble {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are as they lie in memory");

constexpr std::array kMagic = {'N', 'I', 'B', 'S', 'T', 'A', 'T', 'E'};

struct SavedHead {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kSavedVersion;
  std::uint32_t states = 0;
  Fingerprint program;
  std::uint64_t note_bytes = 0;
  std::uint64_t data_bytes = 0;
};
static_assert(sizeof(SavedHead) == 48 && std::is_trivially_copyable_v<SavedHead>);

struct SavedRecord {
  std::array<char, 32> role{};
  std::uint32_t dtype = 0;
  std::uint32_t rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::int64_t row_axis = 0;
  std::int64_t rows = 0;

  friend bool operator==(const SavedRecord&, const SavedRecord&) = default;
};
static_assert(sizeof(SavedRecord) == 120 && std::is_trivially_copyable_v<SavedRecord>);

using SavedSum = std::uint64_t;

SavedRecord record_of(const StateDesc& desc) {
  SavedRecord record;
  std::ranges::copy(desc.role.substr(0, record.role.size()), record.role.begin());
  record.dtype = static_cast<std::uint32_t>(desc.dtype);
  record.rank = static_cast<std::uint32_t>(desc.shape.rank());
  std::ranges::copy(desc.shape.dims(), record.dims.begin());
  record.row_axis = desc.row_axis;
  return record;
}

template <class T>
Result<T> read_as(const ByteSource& file, std::uint64_t offset) {
  T value;
  TRY(file.read(offset, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

Status check_sum(const ByteSource& file, std::string_view name, std::uint64_t end) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::vector<std::byte> piece(std::min(end, kPiece));
  PlaceHash hash;
  for (std::uint64_t at = 0; at < end; at += kPiece) {
    const auto part = std::span(piece).first(std::min(kPiece, end - at));
    TRY(file.read(at, part));
    hash.add(at, part);
  }
  TRY_ASSIGN(const auto sum, read_as<SavedSum>(file, end));
  if (sum == hash.sum()) return {};
  return fail(ErrorCode::io, "{} is damaged: its checksum does not fit its content", name);
}

Result<std::int64_t> check_record(const SavedRecord& record, std::size_t index, std::string_view name,
                                  const StateDesc& desc) {
  SavedRecord wanted = record_of(desc);
  wanted.rows = record.rows;
  if (!(record == wanted)) {
    return fail(
        ErrorCode::invalid_argument,
        "{} was saved with another layout: its state {} is not {} of type {} and shape {} as here; were options "
        "such as f16_cache the same?",
        name, index, desc.role, desc.dtype, desc.shape);
  }
  const auto most = desc.row_axis == StateDesc::kNoRows ? 0 : desc.shape[static_cast<std::size_t>(desc.row_axis)];
  if (record.rows >= 0 && record.rows <= most) return record.rows;
  return fail(ErrorCode::io, "{} says that {} of {} rows of its state {} are in use", name, record.rows, most, index);
}

}  // namespace

std::vector<std::byte> saved_head(const Fingerprint& program, std::span<const StateDesc> states,
                                  std::span<const std::int64_t> rows, std::span<const std::byte> note,
                                  std::uint64_t data_bytes) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& value) {
    const auto from = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), from.begin(), from.end());
  };
  append(SavedHead{.states = static_cast<std::uint32_t>(states.size()),
                   .program = program,
                   .note_bytes = note.size(),
                   .data_bytes = data_bytes});
  for (std::size_t i = 0; i < states.size(); ++i) {
    SavedRecord record = record_of(states[i]);
    record.rows = rows[i];
    append(record);
  }
  bytes.insert(bytes.end(), note.begin(), note.end());
  return bytes;
}

Result<SavedState> check_saved(const ByteSource& file, std::string_view name, const Fingerprint& program,
                               std::span<const StateDesc> states) {
  SavedHead head;
  const bool has_head = file.size() >= sizeof(head) + sizeof(SavedSum);
  if (has_head) {
    TRY_ASSIGN(head, read_as<SavedHead>(file, 0));
  }
  if (!has_head || head.magic != kMagic) return fail(ErrorCode::io, "{} is not a saved session", name);
  if (head.version != kSavedVersion) {
    return fail(ErrorCode::io, "{} is a saved session of version {}, but this Nibble reads version {}", name,
                head.version, kSavedVersion);
  }
  const Size note_offset = Size(head.states) * sizeof(SavedRecord) + sizeof(SavedHead);
  const Size data_offset = note_offset + head.note_bytes;
  const Size size = data_offset + head.data_bytes + sizeof(SavedSum);
  if (!size.valid() || size.unchecked() != file.size()) {
    return fail(ErrorCode::io, "{} is cut off or was added to: its {} bytes are not what its head says", name,
                file.size());
  }
  TRY(check_sum(file, name, file.size() - sizeof(SavedSum)));
  if (head.program.structure != program.structure) {
    return fail(ErrorCode::invalid_argument, "{} was saved by another program", name);
  }
  if (head.program.weights != program.weights) {
    return fail(ErrorCode::invalid_argument, "{} was saved by a program with other weights", name);
  }
  if (head.states != states.size()) {
    return fail(ErrorCode::invalid_argument,
                "{} was saved with another layout: it has {} states, but there are {} here", name, head.states,
                states.size());
  }
  SavedState saved{.rows = {},
                   .note = std::vector<std::byte>(head.note_bytes),
                   .data_offset = data_offset.unchecked(),
                   .data_bytes = head.data_bytes};
  TRY(file.read(note_offset.unchecked(), saved.note));
  for (std::size_t i = 0; i < states.size(); ++i) {
    TRY_ASSIGN(const auto record, read_as<SavedRecord>(file, sizeof(SavedHead) + i * sizeof(SavedRecord)));
    TRY_ASSIGN(const auto rows, check_record(record, i, name, states[i]));
    saved.rows.push_back(rows);
  }
  return saved;
}

}  // namespace nibble
