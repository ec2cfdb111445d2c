#pragma once

#include <functional>
#include <vector>

/// The queue of the emulated device: launches and multiplications go through submit (simt_host.h).
namespace headloom::simt::emu {

/// Work that is kept instead of done.
using Recording = std::vector<std::function<void()>>;

/// Work put into the queue: done now, or kept where set_recording says.
void submit(std::function<void()> work);
/// Null: work is done again.
void set_recording(Recording* recording);
bool is_recording();
/// Who runs work that is done now, for a device whose memory must be opened first.
void set_runner(void (*runner)(const std::function<void()>& work));

}  // namespace headloom::simt::emu
