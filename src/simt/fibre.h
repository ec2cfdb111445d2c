#pragma once
// A fibre: a stack of its own and a saved stack pointer. `Fibre::resume(from, to)` leaves one and
// enters the other. On x86-64 that is sixteen instructions; elsewhere (or with
// -DSIMT_UCONTEXT) it is swapcontext, which costs a system call each time.
//
// A fibre never moves to another thread, so thread_local variables stay valid across a switch.
// AddressSanitizer must be told about each switch, or it takes the new stack for an overflow of
// the old one; `resume` and `arrived` do that.

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT 1
#endif
#if defined(SIMT_UCONTEXT)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#if defined(SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace headloom::simt::emu {

#if !defined(SIMT_UCONTEXT)
extern "C" void simt_switch_stack(void** save, void* load);
#endif

struct Fibre {
  const void* stack_bottom = nullptr;  // lowest address; null for a thread's own stack until known
  std::size_t stack_bytes = 0;
#if defined(SIMT_UCONTEXT)
  ucontext_t context;
#else
  void* stack_pointer = nullptr;
#endif
#if defined(SIMT_ASAN)
  void* fake_stack = nullptr;
#endif

  /// Makes the fibre start in `entry` at its next resume. `entry` must never return. `skew` moves
  /// the start of the stack down, so that many fibres do not all live in the same cache sets.
  void start(char* bottom, std::size_t bytes, std::size_t skew, void (*entry)()) {
    stack_bottom = bottom;
    stack_bytes = bytes;
#if defined(SIMT_ASAN)
    __asan_unpoison_memory_region(bottom, bytes);  // frames of an abandoned predecessor
    fake_stack = nullptr;
#endif
#if defined(SIMT_UCONTEXT)
    getcontext(&context);
    context.uc_stack.ss_sp = bottom;
    context.uc_stack.ss_size = (bytes - skew) & ~std::size_t{15};
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
#else
    auto top = (reinterpret_cast<std::uintptr_t>(bottom) + bytes - skew) & ~std::uintptr_t{15};
    auto* slot = reinterpret_cast<void**>(top);
    *--slot = nullptr;                              // no return address: stops unwinders
    *--slot = reinterpret_cast<void*>(entry);       // popped for the final jump
    for (int i = 0; i < 6; ++i) *--slot = nullptr;  // rbp rbx r12 r13 r14 r15
    stack_pointer = slot;
#endif
  }

  /// Leaves `from`, enters `to`; returns when someone resumes `from`. `last` says that `from` will
  /// not be resumed again.
  static void resume(Fibre& from, Fibre& to, [[maybe_unused]] bool last = false) {
#if defined(SIMT_ASAN)
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.stack_bottom,
                                   to.stack_bytes);
#endif
#if defined(SIMT_UCONTEXT)
    swapcontext(&from.context, &to.context);
#else
    simt_switch_stack(&from.stack_pointer, to.stack_pointer);
#endif
#if defined(SIMT_ASAN)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
  }

  /// First statement of `entry`. `origin` is the fibre that started the first lane; its stack
  /// bounds are learned here.
  static void arrived([[maybe_unused]] Fibre& origin) {
#if defined(SIMT_ASAN)
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (origin.stack_bottom == nullptr) {
      origin.stack_bottom = bottom;
      origin.stack_bytes = bytes;
    }
#endif
  }
};

}  // namespace headloom::simt::emu
