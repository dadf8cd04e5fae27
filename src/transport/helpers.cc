#include "transport/helpers.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace roce::transport {

std::thread start_thread(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

void Helpers::submit(std::function<void()> job) {
  std::lock_guard guard(mutex_);
  if (stopping_) {
    return;
  }
  jobs_.push_back(std::move(job));
  if (idle_ < jobs_.size() && threads_.size() < kMaxThreads) {
    threads_.push_back(start_thread([this] { run(); }));
  }
  wake_.notify_one();
}

void Helpers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (stopping_) {
      return;
    }
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

void Helpers::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
    jobs_.clear();
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

size_t Helpers::threads() {
  std::lock_guard guard(mutex_);
  return threads_.size();
}

}  // namespace roce::transport
