#include "cli/npy.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "graph/size.hpp"

static_assert(std::endian::native == std::endian::little);

namespace nibble::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = 65536;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr TypeCode kTypeCodes[] = {{"|b1", DType::boolean}, {"|u1", DType::u8},  {"|i1", DType::i8},
                                   {"<i4", DType::i32},     {"<i8", DType::i64}, {"<f2", DType::f16},
                                   {"<f4", DType::f32},     {"<f8", DType::f64}};

/// Reads the Python literal in a header, a dict such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  bool read() {
    if (!take('{')) return false;
    while (!take('}')) {
      const auto key = text();
      if (!key || !take(':')) return false;
      bool ok = false;
      if (*key == "descr") {
        ok = (descr = text()).has_value();
      } else if (*key == "fortran_order") {
        ok = (fortran_order = boolean()).has_value();
      } else if (*key == "shape") {
        ok = (has_shape = tuple());
      }
      if (!ok) return false;
      if (!take(',') && !peek('}')) return false;
    }
    return descr && fortran_order && has_shape;
  }

  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  bool has_shape = false;
  bool rank_too_high = false;
  Shape shape;

 private:
  bool peek(char c) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
    return rest_.starts_with(c);
  }
  bool take(char c) {
    if (!peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> text() {
    const char quote = peek('"') ? '"' : '\'';
    if (!take(quote)) return std::nullopt;
    const auto end = rest_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    const auto found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }
  std::optional<bool> boolean() {
    (void)peek(' ');
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    return std::nullopt;
  }
  bool tuple() {
    if (!take('(')) return false;
    while (!take(')')) {
      (void)peek(' ');
      std::int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error != std::errc{} || dim < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (!shape.push_back(dim)) rank_too_high = true;
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

Result<std::string> read_header(std::FILE* file, const std::string& path) {
  unsigned char start[8];
  if (std::fread(start, 1, sizeof start, file) != sizeof start ||
      std::memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    return fail(ErrorCode::io, "{} is not a .npy file: it does not begin with NumPy's magic bytes", path);
  }
  const unsigned version = start[6];
  if (version < 1 || version > 3) {
    return fail(ErrorCode::io, "{} has version {} of the .npy format, but versions 1 to 3 are known", path, version);
  }
  unsigned char size[4] = {};
  const std::size_t size_bytes = version == 1 ? 2 : 4;
  const bool cut = std::fread(size, 1, size_bytes, file) != size_bytes;
  const std::size_t bytes = size[0] | size[1] << 8U | size[2] << 16U | static_cast<std::size_t>(size[3]) << 24U;
  if (!cut && bytes > kMostHeaderBytes) {
    return fail(ErrorCode::io, "{} has a header of {} bytes, but at most {} are read", path, bytes, kMostHeaderBytes);
  }
  std::string header(bytes, '\0');
  if (cut || std::fread(header.data(), 1, bytes, file) != bytes) {
    return fail(ErrorCode::io, "{} ends inside its header", path);
  }
  return header;
}

/// Type and shape, no memory yet.
Result<Array> parse_header(std::string_view header, const std::string& path) {
  HeaderReader reader(header);
  if (!reader.read()) {
    return fail(ErrorCode::io, "{} does not describe one array of plain numbers: its header is {}", path,
                shown(header.substr(0, header.find_last_not_of(" \n") + 1)));
  }
  const auto type = std::ranges::find(kTypeCodes, *reader.descr, &TypeCode::code);
  if (type == std::end(kTypeCodes)) {
    return fail(ErrorCode::io,
                "{} holds elements of type '{}', but they must be bool, uint8, int8, int32, int64, float16, float32 or "
                "float64, little-endian",
                path, shown(*reader.descr));
  }
  if (reader.rank_too_high) {
    return fail(ErrorCode::io, "{} holds an array of more than {} dimensions", path, Shape::kMaxRank);
  }
  const bool order_matters = std::ranges::count_if(reader.shape, [](auto d) { return d > 1; }) > 1;
  if (*reader.fortran_order && order_matters) {
    return fail(ErrorCode::io, "{} holds an array in column-major order; save it with numpy.ascontiguousarray()", path);
  }
  return Array{type->dtype, reader.shape, {}};
}

}  // namespace

Result<HostMemory> HostMemory::make(std::size_t bytes, std::string_view what) {
  HostMemory memory{std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[std::max<std::size_t>(bytes, 1)]()),
                    bytes};
  if (memory.data == nullptr)
    return fail(ErrorCode::out_of_memory, "there is no memory for {} ({} bytes)", what, bytes);
  return memory;
}

Result<Array> read_npy(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return fail(ErrorCode::io, "cannot open {}: {}", path, std::strerror(errno));
  struct stat info{};
  if (fstat(fileno(file.get()), &info) == 0 && S_ISDIR(info.st_mode)) {
    return fail(ErrorCode::io, "{} is a folder, not a .npy file", path);
  }
  TRY_ASSIGN(const std::string header, read_header(file.get(), path));
  TRY_ASSIGN(Array array, parse_header(header, path));
  TRY_ASSIGN(const auto bytes, Size::bytes(array.shape, array.dtype).get(fmt::format("the size of {}", path)));
  const auto cut = [&](std::uint64_t found) {
    return fail(ErrorCode::io, "{} holds {} bytes of data, but a {} array of shape {} takes {}", path, found,
                array.dtype, array.shape, bytes);
  };
  // A file that lies about its shape must not make us ask for memory; of a pipe nobody knows the length.
  if (S_ISREG(info.st_mode)) {
    const auto found = static_cast<std::uint64_t>(info.st_size) - static_cast<std::uint64_t>(std::ftell(file.get()));
    if (found < bytes) return cut(found);
  }
  TRY_ASSIGN(array.memory, HostMemory::make(bytes, path));
  if (const auto found = std::fread(array.memory.data.get(), 1, bytes, file.get()); found != bytes) return cut(found);
  return array;
}

Status write_npy(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> data) {
  const auto type = std::ranges::find(kTypeCodes, dtype, &TypeCode::dtype);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type->code,
                                   fmt::join(shape, ", "), shape.rank() == 1 ? "," : "");
  // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  start += header;

  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return fail(ErrorCode::io, "cannot write {}: {}", path, std::strerror(errno));
  const bool written = std::fwrite(start.data(), 1, start.size(), file.get()) == start.size() &&
                       std::fwrite(data.data(), 1, data.size(), file.get()) == data.size();
  // Some file systems tell only now that they are full.
  const bool closed = std::fclose(file.release()) == 0;
  if (!written || !closed) return fail(ErrorCode::io, "cannot write {}: {}", path, std::strerror(errno));
  return {};
}

}  // namespace nibble::cli
