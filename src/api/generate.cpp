#include "nibble/generate.hpp"

#include "api/generator.hpp"
#include "graph/guarded.hpp"

namespace nibble {

Result<Generator> Generator::make(const Model& model) {
  return guarded([&]() -> Result<Generator> {
    TRY_ASSIGN(auto impl, GeneratorImpl::make(model));
    return Internals::make<Generator>(std::move(impl));
  });
}

const LanguageModelInfo& Generator::info() const { return impl_->info; }

Status Generator::start(std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  return guarded([&] { return impl_->start(prompt, options); });
}

Result<bool> Generator::prefill() {
  return guarded([&] { return impl_->prefill(); });
}

Result<std::optional<GeneratedToken>> Generator::next(std::span<const std::uint32_t> allowed) {
  return guarded([&] { return impl_->next(allowed); });
}

Status Generator::stop() {
  return guarded([&] { return impl_->stop(); });
}

void Generator::cancel() noexcept { impl_->cancel(); }

Result<GenerateStats> Generator::stats() const {
  return guarded([&] { return impl_->stats(); });
}

Result<std::vector<std::int32_t>> Generator::tokens() const {
  return guarded([&] { return impl_->tokens(); });
}

Status Generator::rewind(std::int64_t count) {
  return guarded([&] { return impl_->rewind(count); });
}

Result<Generator> Generator::fork() {
  return guarded([&]() -> Result<Generator> {
    TRY_ASSIGN(auto impl, impl_->fork());
    return Internals::make<Generator>(std::move(impl));
  });
}

Status Generator::save(const std::string& path) {
  return guarded([&] { return impl_->save(path); });
}

Status Generator::restore(const std::string& path) {
  return guarded([&] { return impl_->restore(path); });
}

}  // namespace nibble
