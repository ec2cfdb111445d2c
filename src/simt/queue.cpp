#include "simt/queue.h"

namespace headloom::simt::emu {
namespace {

Recording* current_recording = nullptr;
void (*current_runner)(const std::function<void()>&) = nullptr;

}  // namespace

void submit(std::function<void()> work) {
  if (current_recording != nullptr) {
    // Replayed work goes through the queue again, so that its memory is opened for it.
    current_recording->push_back([work = std::move(work)] { submit(work); });
  } else if (current_runner != nullptr) {
    current_runner(work);
  } else {
    work();
  }
}

void set_recording(Recording* recording) {
  current_recording = recording;
}

bool is_recording() {
  return current_recording != nullptr;
}

void set_runner(void (*runner)(const std::function<void()>& work)) {
  current_runner = runner;
}

}  // namespace headloom::simt::emu
