// What a session does with its state between calls.
#include "api/new_file.hpp"
#include "api/saved_state.hpp"
#include "api/session.hpp"
#include "program/file.hpp"

namespace nibble {
namespace {

/// The part of a file that holds the state, as constant 0.
class SavedBytes final : public ConstantSource {
 public:
  SavedBytes(const File& file, const SavedState& saved) : file_(file), saved_(saved) {}
  Status read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) override {
    TRY(check_constant(constant, saved_.data_bytes, offset, to.size()));
    return file_.read(saved_.data_offset + offset, to);
  }

 private:
  const File& file_;
  const SavedState& saved_;
};

std::uint64_t bytes_of(std::span<const StateRange> ranges) {
  std::uint64_t bytes = 0;
  for (const auto& range : ranges) bytes += range.bytes;
  return bytes;
}

}  // namespace

Status SessionImpl::rewind(std::int64_t rows) {
  TRY_ASSIGN(const auto turn, take_turn());
  return executor->rewind(rows, *model->constants);
}

Status SessionImpl::reset() {
  TRY_ASSIGN(const auto turn, take_turn());
  return executor->reset(*model->constants);
}

Result<std::shared_ptr<SessionImpl>> SessionImpl::fork() {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY_ASSIGN(auto forked, executor->fork());
  return adopt(model, std::move(forked));
}

Status SessionImpl::save(const std::string& path, std::span<const std::byte> note) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(executor->check_settled());
  const auto rows = executor->state_rows();
  const auto head = saved_head(model->fingerprint, model->resources->plan()->layout().states, rows, note,
                               bytes_of(executor->live_ranges(rows)));
  TRY_ASSIGN(auto file, NewFile::create(path));
  PlaceHash hash;
  std::uint64_t at = 0;
  const auto write = [&](std::span<const std::byte> bytes) -> Status {
    hash.add(at, bytes);
    at += bytes.size();
    return file.write(bytes);
  };
  TRY(write(head));
  TRY(executor->read_state(write));
  const std::uint64_t checksum = hash.sum();
  TRY(file.write(std::as_bytes(std::span(&checksum, 1))));
  return file.finish();
}

Status SessionImpl::restore(const std::string& path, const std::function<Status(const SavedState&)>& accept) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(executor->check_idle());
  TRY_ASSIGN(const File file, File::open(path));
  const auto name = fmt::format("'{}'", path);
  TRY_ASSIGN(const auto saved, check_saved(file, name, model->fingerprint, model->resources->plan()->layout().states));
  if (const auto wanted = bytes_of(executor->live_ranges(saved.rows)); wanted != saved.data_bytes) {
    return fail(ErrorCode::io, "{} has {} bytes of state, but its rows take {}", name, saved.data_bytes, wanted);
  }
  if (accept) TRY(accept(saved));
  SavedBytes source(file, saved);
  return executor->write_state(saved.rows, source);
}

}  // namespace nibble
