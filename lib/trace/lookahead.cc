// SPDX-License-Identifier: GPL-2.0-only
#include "trace/lookahead.h"

#include <algorithm>

namespace e4::trace {
namespace {

constexpr std::size_t kMaxListed = 65536;   // loads and releases kept of one request
constexpr std::size_t kMaxWaiting = 65536;  // delayed requests of one thread not settled yet

/// Lines that show the allocator at work on the thread's request.
bool decides(Kind k) {
  switch (k) {
    case Kind::buddy_bitmap_load:
    case Kind::new_inode_pa:
    case Kind::new_group_pa:
    case Kind::mb_discard_preallocations:
    case Kind::mballoc_discard:
    case Kind::release_inode_pa:
    case Kind::release_group_pa:
    case Kind::mballoc_alloc:
    case Kind::mballoc_prealloc:
    case Kind::allocate_blocks: return true;
    default: return false;
  }
}

/// Lines that can only follow a request whose claim was refused.
bool proves_refusal(Kind k) {
  return k == Kind::request_blocks || k == Kind::map_blocks_exit || k == Kind::discard_preallocations ||
         k == Kind::free_blocks;
}

}  // namespace

Lookahead::Thread& Lookahead::thread(std::int32_t pid) {
  if (pid != last_pid_ || last_thread_ == nullptr) {
    last_thread_ = &threads_[pid];
    last_pid_ = pid;
  }
  return *last_thread_;
}

Result<bool> Lookahead::next(Item& item) {
  if (window_.empty() && !E4_TRY(fill())) return false;
  while (window_.front().role == Item::Role::begin && window_.front().request->end == RequestRecord::End::open) {
    if (window_.size() >= limit_ || !E4_TRY(fill())) {
      RequestRecord& r = *window_.front().request;
      if (r.end == RequestRecord::End::open) {
        r.end = RequestRecord::End::abandoned;
        ++abandoned_;
        Thread& t = thread(r.request.pid);
        if (t.current.get() == &r) t.current.reset();
      }
    }
  }
  item = std::move(window_.front());
  window_.pop_front();
  return true;
}

Result<void> Lookahead::resolve_open(RequestRecord& request) {
  while (request.open == RequestRecord::Open::unknown) {
    if (window_.size() >= limit_ || !E4_TRY(fill())) {
      if (request.open == RequestRecord::Open::unknown) request.open = RequestRecord::Open::open;
    }
  }
  return {};
}

Result<bool> Lookahead::fill() {
  if (ended_) return false;
  window_.emplace_back();
  Item& item = window_.back();
  auto got = reader_.next(item.event);
  if (!got) {
    window_.pop_back();
    return std::move(got).error();
  }
  if (!*got) {
    window_.pop_back();
    ended_ = true;
    return false;
  }
  look_at(item);
  return true;
}

void Lookahead::settle(Thread& t, Ino ino, std::uint32_t dev, RequestRecord::Open open) {
  std::erase_if(t.waiting, [&](const std::shared_ptr<RequestRecord>& r) {
    if (r->request.ino != ino || r->request.dev != dev) return false;
    if (r->open == RequestRecord::Open::unknown) r->open = open;
    return true;
  });
}

void Lookahead::look_at(Item& item) {
  const Event& e = item.event;
  if (e.kind == Kind::mark) return;
  Thread& t = thread(e.pid);
  if (t.emptied != 0) {
    const bool closed = e.kind == Kind::discard_preallocations && e.ino == t.emptied && e.dev == t.emptied_dev;
    settle(t, t.emptied, t.emptied_dev, closed ? RequestRecord::Open::closed : RequestRecord::Open::open);
    t.emptied = 0;
  }
  if (t.current != nullptr) {
    if (proves_refusal(e.kind)) {
      t.current->end = RequestRecord::End::refused;
      t.current->end_number = e.number;
      t.current.reset();
    } else if (t.current->request.dev == e.dev) {
      in_request(t, item);
    }
  }
  if (e.kind == Kind::request_blocks) {
    auto r = std::make_shared<RequestRecord>();
    r->request = e;
    r->begin_number = e.number;
    item.request = r;
    item.role = Item::Role::begin;
    t.current = r;
    if (!r->delayed()) {
      r->open = RequestRecord::Open::open;
    } else if (t.waiting.size() < kMaxWaiting) {
      t.waiting.push_back(r);
    } else {
      r->open = RequestRecord::Open::open;
    }
  } else if (e.kind == Kind::da_update_reserve_space && e.da.blocks == e.da.reserved) {
    t.emptied = e.ino;
    t.emptied_dev = e.dev;
  }
}

void Lookahead::in_request(Thread& t, Item& item) {
  const Event& e = item.event;
  RequestRecord& r = *t.current;
  item.request = t.current;
  item.role = Item::Role::inside;
  if (r.decide_number == 0 && decides(e.kind)) {
    r.decide_number = e.number;
    r.decide_ns = e.time_ns;
    item.role = Item::Role::decide;
  }
  switch (e.kind) {
    case Kind::buddy_bitmap_load:
      if (r.loaded.size() < kMaxListed) r.loaded.push_back(e.extent.group);
      break;
    case Kind::new_inode_pa:
    case Kind::new_group_pa:
      r.new_pa_kind = e.kind;
      r.new_pa = e;
      break;
    case Kind::mb_discard_preallocations: r.discarded = true; break;
    case Kind::mballoc_discard:
      if (r.released.size() < kMaxListed)
        r.released.push_back({e.extent.group, static_cast<std::uint32_t>(e.extent.start), e.extent.len});
      break;
    case Kind::mballoc_alloc:
      r.has_alloc = true;
      r.alloc = e;
      break;
    case Kind::mballoc_prealloc:
      r.from_prealloc = true;
      r.alloc = e;
      break;
    case Kind::allocate_blocks:
      r.result = e;
      r.end = RequestRecord::End::done;
      r.end_number = e.number;
      r.end_ns = e.time_ns;
      item.ends = true;
      t.current.reset();
      break;
    default: break;
  }
}

}  // namespace e4::trace
