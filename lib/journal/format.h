// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/endian.h"

/// jbd2 on disk (Linux 6.18, include/linux/jbd2.h): everything in the log is
/// big endian, everything in the fast-commit area little endian. Field names
/// are the kernel's.
namespace e4::journal {

inline constexpr std::uint32_t kMagic = 0xC03B3998;
inline constexpr std::uint32_t kMinLogBlocks = 1024;       // JBD2_MIN_JOURNAL_BLOCKS
inline constexpr std::uint32_t kDefaultFastCommitBlocks = 256;
inline constexpr std::size_t kSuperBytes = 1024;

// h_blocktype
inline constexpr std::uint32_t kDescriptorBlock = 1;
inline constexpr std::uint32_t kCommitBlock = 2;
inline constexpr std::uint32_t kSuperV1 = 3;
inline constexpr std::uint32_t kSuperV2 = 4;
inline constexpr std::uint32_t kRevokeBlock = 5;

// s_feature_compat
inline constexpr std::uint32_t kCompatChecksum = 0x1;      // "v1": crc32 of the transaction in its commit block
// s_feature_incompat
inline constexpr std::uint32_t kIncompatRevoke = 0x1;
inline constexpr std::uint32_t kIncompat64bit = 0x2;
inline constexpr std::uint32_t kIncompatAsyncCommit = 0x4;
inline constexpr std::uint32_t kIncompatCsumV2 = 0x8;
inline constexpr std::uint32_t kIncompatCsumV3 = 0x10;
inline constexpr std::uint32_t kIncompatFastCommit = 0x20;
inline constexpr std::uint32_t kIncompatKnown = 0x3F;

// t_flags
inline constexpr std::uint32_t kTagEscape = 1;             // first four bytes were the magic; stored as zero
inline constexpr std::uint32_t kTagSameUuid = 2;           // clear: 16 bytes of UUID follow the tag
inline constexpr std::uint32_t kTagDeleted = 4;            // never set by Linux; ignored like there
inline constexpr std::uint32_t kTagLast = 8;

inline constexpr std::uint8_t kChecksumTypeCrc32 = 1;      // h_chksum_type of v1 commit blocks
inline constexpr std::uint8_t kChecksumTypeCrc32c = 4;     // s_checksum_type

struct BlockHeader {
  be32 h_magic;
  be32 h_blocktype;
  be32 h_sequence;
};
static_assert(sizeof(BlockHeader) == 12);

struct SuperOnDisk {
  BlockHeader s_header;
  be32 s_blocksize;
  be32 s_maxlen;           // blocks, superblock and fast-commit area included
  be32 s_first;            // first block of the ring
  be32 s_sequence;         // tid expected at s_start
  be32 s_start;            // log block where recovery starts; 0: empty
  be32 s_errno;
  // v2 only from here on
  be32 s_feature_compat;
  be32 s_feature_incompat;
  be32 s_feature_ro_compat;
  std::uint8_t s_uuid[16];
  be32 s_nr_users;
  be32 s_dynsuper;
  be32 s_max_transaction;
  be32 s_max_trans_data;
  std::uint8_t s_checksum_type;
  std::uint8_t s_padding2[3];
  be32 s_num_fc_blks;
  be32 s_head;             // end of the log; meaningful only while empty
  std::uint8_t s_padding[160];
  be32 s_checksum;         // crc32c(~0, these 1024 bytes with this field zero)
  std::uint8_t s_users[16 * 48];
};
static_assert(sizeof(SuperOnDisk) == kSuperBytes);
static_assert(offsetof(SuperOnDisk, s_checksum) == 0xFC);

struct CommitOnDisk {
  BlockHeader h;
  std::uint8_t h_chksum_type;
  std::uint8_t h_chksum_size;
  std::uint8_t h_padding[2];
  be32 h_chksum[8];
  be64 h_commit_sec;
  be32 h_commit_nsec;
};
static_assert(sizeof(CommitOnDisk) == 60);

struct RevokeHeader {
  BlockHeader r_header;
  be32 r_count;            // bytes used in the block, this header included
};
static_assert(sizeof(RevokeHeader) == 16);

// Fast-commit records (fs/ext4/fast_commit.h): tag and length, then `fc_len` bytes.
inline constexpr std::uint16_t kFcAddRange = 1;
inline constexpr std::uint16_t kFcDelRange = 2;
inline constexpr std::uint16_t kFcCreat = 3;
inline constexpr std::uint16_t kFcLink = 4;
inline constexpr std::uint16_t kFcUnlink = 5;
inline constexpr std::uint16_t kFcInode = 6;
inline constexpr std::uint16_t kFcPad = 7;
inline constexpr std::uint16_t kFcTail = 8;
inline constexpr std::uint16_t kFcHead = 9;

struct FcTl {
  le16 fc_tag;
  le16 fc_len;
};
struct FcHead {
  le32 fc_features;        // must be 0
  le32 fc_tid;
};
struct FcTail {
  le32 fc_tid;
  le32 fc_crc;             // crc32c, start 0, over all since the previous tail up to and including fc_tid
};
struct FcAddRange {
  le32 fc_ino;
  le32 ee_block;
  le16 ee_len;             // +32768: unwritten
  le16 ee_start_hi;
  le32 ee_start_lo;
};
struct FcDelRange {
  le32 fc_ino;
  le32 fc_lblk;
  le32 fc_len;
};
struct FcDentry {          // CREAT, LINK, UNLINK; the name follows, without terminator
  le32 fc_parent_ino;
  le32 fc_ino;
};
static_assert(sizeof(FcTl) == 4 && sizeof(FcHead) == 8 && sizeof(FcTail) == 8 && sizeof(FcAddRange) == 16 &&
              sizeof(FcDelRange) == 12 && sizeof(FcDentry) == 8);

}  // namespace e4::journal
