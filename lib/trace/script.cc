// SPDX-License-Identifier: GPL-2.0-only
#include "trace/script.h"

namespace e4::trace {

Op& ScriptWriter::add(Op::Kind kind, Ino ino, std::uint64_t value) {
  Op& op = script_.ops.emplace_back();
  op.kind = kind;
  op.ino = ino;
  op.value = value;
  op.time_ns = now_ns_;
  op.cpu = cpu_;
  return op;
}

void ScriptWriter::saw(const Event& e) {
  now_ns_ = e.time_ns;
  cpu_ = e.cpu;
  if (script_.first_ns == 0) script_.first_ns = e.time_ns;
  script_.last_ns = e.time_ns;
}

Result<void> ScriptWriter::decide(RequestRecord& r) {
  Op& op = add(Op::Kind::request, r.request.ino, script_.requests.size());
  op.cpu = r.request.cpu;
  Script::Request& q = script_.requests.emplace_back();
  q.ask = r.ready;
  if (r.end == RequestRecord::End::done) {
    q.kernel_block = r.result.req.block;
    q.kernel_len = r.result.req.len;
  }
  return {};
}

Result<void> ScriptWriter::free(const Freed& f) {
  if (f.group >= geometry_.groups() || f.start >= geometry_.clusters_per_group ||
      f.len > geometry_.clusters_per_group - f.start)
    return make_error(ErrorKind::corrupt, "the trace frees clusters this file system does not have");
  Op& op = add(Op::Kind::free, f.ino, f.group);
  op.start = f.start;
  op.len = f.len;
  op.flags = f.flags;
  op.tid = f.tid;
  return {};
}

void ScriptWriter::commit(Tid tid) { add(Op::Kind::commit, 0, tid); }
void ScriptWriter::discard_inode(Ino ino, std::uint32_t) { add(Op::Kind::discard_inode, ino, 0); }

Result<void> ScriptWriter::load_group(GroupNo group) {
  add(Op::Kind::load_group, 0, group);
  return {};
}
void ScriptWriter::bitmap_cached(GroupNo group) { add(Op::Kind::bitmap_cached, 0, group); }

Result<void> ScriptWriter::prefetch(GroupNo first, std::uint32_t count) {
  add(Op::Kind::prefetch, 0, first).start = count;
  return {};
}

void ScriptWriter::inode_allocated(Ino ino, std::uint32_t) {
  if (ino != 0) add(Op::Kind::inode_allocated, ino, (ino - 1) / geometry_.inodes_per_group);
}
void ScriptWriter::reserve(std::int64_t clusters, std::uint32_t cpu) {
  add(Op::Kind::reserve, 0, static_cast<std::uint64_t>(clusters)).cpu = static_cast<std::uint16_t>(cpu);
}

}  // namespace e4::trace
