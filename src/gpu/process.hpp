// fork(). A child has none of the threads of the GPU's library and driver, but all of their locks, some of them held by
// threads that are gone. So in a child nothing may call them or wait for a lock of ours, and nothing is destroyed: what
// another thread was changing is half changed. A child that was forked before the first use is like any process.
#pragma once

#include <memory>

#include "graph/status.hpp"

namespace nibble::gpu {

/// Whether this process was forked from one that used the GPU.
bool is_forked() noexcept;
/// The error of every call in such a process. Comes before any lock.
Status check_process();
/// From now on the GPU is used: later forks are not free. Comes before any lock, too.
Status enter_process();

/// What drivers do at exit may wait for threads that a child does not have. So a child leaves before that: what was
/// registered for the exit since the last call of this runs, then the process ends. Call it when a driver was loaded.
void exit_before_drivers() noexcept;

/// As std::make_shared, but a forked child leaves the object as it is.
template <class T, class... Arguments>
std::shared_ptr<T> make_kept(Arguments&&... arguments) {
  return {new T{std::forward<Arguments>(arguments)...}, [](T* object) {
            if (!is_forked()) delete object;
          }};
}

}  // namespace nibble::gpu
