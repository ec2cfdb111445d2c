// Preloaded into the program (LD_PRELOAD): the FAIL_AT_CALL-th call that changes the disk fails
// with "No space left on device"; all others do what they always do.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

bool fails() {
  static std::atomic<long> calls{0};
  static const char* wanted = std::getenv("FAIL_AT_CALL");
  if (wanted == nullptr || ++calls != std::atol(wanted)) return false;
  errno = ENOSPC;
  return true;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t size) {
  static auto* const call = real<ssize_t(int, const void*, size_t)>("write");
  return descriptor > 2 && fails() ? -1 : call(descriptor, data, size);
}

int fsync(int descriptor) {
  static auto* const call = real<int(int)>("fsync");
  return fails() ? -1 : call(descriptor);
}

int rename(const char* from, const char* to) {
  static auto* const call = real<int(const char*, const char*)>("rename");
  return fails() ? -1 : call(from, to);
}

int mkdir(const char* path, mode_t mode) {
  static auto* const call = real<int(const char*, mode_t)>("mkdir");
  return fails() ? -1 : call(path, mode);
}

int symlink(const char* target, const char* path) {
  static auto* const call = real<int(const char*, const char*)>("symlink");
  return fails() ? -1 : call(target, path);
}

}  // extern "C"
