// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <vector>

#include "alloc/sync.h"
#include "base/result.h"
#include "base/units.h"

namespace e4::alloc {

/// What orphan tracking keeps for one in-core inode (kernel: i_orphan,
/// i_orphan_idx, i_dtime and a state bit of ext4_inode_info). The caller owns
/// it, keeps it at its place while it is tracked, and lets one thread at a time
/// add or remove it (the inode lock).
struct OrphanInode {
  enum class State : std::uint8_t { untracked, in_file, in_list };

  OrphanInode() = default;
  explicit OrphanInode(Ino number) : ino(number) {}

  Ino ino = 0;  // constant while tracked
  /// Written by the thread that holds the inode.
  struct Own {
    State state = State::untracked;
    std::uint32_t index = 0;  // in_file: block * slots per block + slot
  } own;
  /// Guarded by the chain's lock: a neighbour's removal writes i_dtime too.
  struct Link {
    std::uint32_t i_dtime = 0;  // as on disk: the next older orphan, 0 at the end (and when untracked)
    OrphanInode* newer = nullptr;
    OrphanInode* older = nullptr;
  } link;
};

/// The legacy orphan list: s_last_orphan, then each inode's i_dtime; one lock
/// for all. New orphans go to the head. (Linux 6.18, ext4_orphan_add and _del.)
/// Thread-safe.
template <class Sync>
class OrphanChain {
 public:
  /// `inodes_count`: s_inodes_count; tells a link from a deletion time.
  explicit OrphanChain(std::uint32_t inodes_count) : inodes_count_(inodes_count) {}

  void add(OrphanInode& inode) {
    BasicLock hold(lock_);
    const std::uint32_t dtime = Sync::get(inode.link.i_dtime);
    // An i_dtime that looks like a link says that the inode is chained on disk already (after an error): leave it.
    if (dtime == 0 || dtime > inodes_count_) {
      Sync::set(inode.link.i_dtime, Sync::get(s_last_orphan_));
      Sync::set(s_last_orphan_, inode.ino);
    }
    OrphanInode* const head = Sync::get(newest_);
    Sync::set(inode.link.newer, kNobody);
    Sync::set(inode.link.older, head);
    if (head != nullptr) Sync::set(head->link.newer, &inode);
    Sync::set(newest_, &inode);
  }

  void remove(OrphanInode& inode) {
    BasicLock hold(lock_);
    const std::uint32_t next = Sync::get(inode.link.i_dtime);
    OrphanInode* const newer = Sync::get(inode.link.newer);
    OrphanInode* const older = Sync::get(inode.link.older);
    if (newer == nullptr) {
      Sync::set(s_last_orphan_, next);
      Sync::set(newest_, older);
    } else {
      Sync::set(newer->link.i_dtime, next);
      Sync::set(newer->link.older, older);
    }
    if (older != nullptr) Sync::set(older->link.newer, newer);
    Sync::set(inode.link.i_dtime, std::uint32_t{0});
    Sync::set(inode.link.newer, kNobody);
    Sync::set(inode.link.older, kNobody);
  }

  [[nodiscard]] Ino last_orphan() {
    BasicLock hold(lock_);
    return Sync::get(s_last_orphan_);
  }
  /// s_last_orphan as read from the superblock; only while nothing is chained.
  void set_last_orphan(Ino ino) {
    BasicLock hold(lock_);
    E4_ASSERT(newest_ == nullptr);
    s_last_orphan_ = ino;
  }

  /// Head to tail, as it has to stand on disk.
  struct OnDisk {
    Ino ino;
    std::uint32_t i_dtime;
  };
  [[nodiscard]] std::vector<OnDisk> links() {
    BasicLock hold(lock_);
    std::vector<OnDisk> out;
    for (const OrphanInode* i = newest_; i != nullptr; i = i->link.older) out.push_back({i->ino, i->link.i_dtime});
    return out;
  }
  /// Links run both ways, and on disk they say what they say in memory. Error (corrupt) names the inode.
  Result<void> verify() {
    BasicLock hold(lock_);
    Ino expected = s_last_orphan_;
    const OrphanInode* newer = nullptr;
    for (const OrphanInode* i = newest_; i != nullptr; newer = i, i = i->link.older) {
      if (i->link.newer != newer) return make_error(ErrorKind::corrupt, "orphan list: links disagree").at_inode(i->ino);
      if (i->own.state != OrphanInode::State::in_list)
        return make_error(ErrorKind::corrupt, "orphan list: member does not know it").at_inode(i->ino);
      if (i->ino != expected) return make_error(ErrorKind::corrupt, "orphan list: predecessor names another").at_inode(i->ino);
      expected = i->link.i_dtime;
    }
    if (newest_ != nullptr && expected != 0) return make_error(ErrorKind::corrupt, "orphan list: the tail names another");
    return {};
  }
  [[nodiscard]] LockTraffic traffic() const { return lock_.traffic(); }

  /// For tests that take snapshots of memory.
  template <class Visit>
  void visit_memory(Visit visit) E4_NO_THREAD_SAFETY_ANALYSIS {
    visit(&lock_, sizeof lock_);
    visit(&newest_, sizeof newest_);
    visit(&s_last_orphan_, sizeof s_last_orphan_);
  }

 private:
  static constexpr OrphanInode* kNobody = nullptr;
  const std::uint32_t inodes_count_;
  typename Sync::Sleep lock_{NeighbourRank::orphan_list};
  OrphanInode* newest_ E4_GUARDED_BY(lock_) = nullptr;
  Ino s_last_orphan_ E4_GUARDED_BY(lock_) = 0;
};

}  // namespace e4::alloc
