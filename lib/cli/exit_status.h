// SPDX-License-Identifier: GPL-2.0-only
#pragma once

/// The bit sum of fsck(8), kept by every checker since 1992.
namespace e4::cli::exit_status {

inline constexpr int kOk = 0;
inline constexpr int kFixed = 1;         // problems were corrected
inline constexpr int kReboot = 2;        // and the system should be rebooted
inline constexpr int kLeft = 4;          // problems were left uncorrected
inline constexpr int kOperational = 8;   // could not do the job: open, read, write, memory
inline constexpr int kUsage = 16;        // wrong arguments
inline constexpr int kCancelled = 32;    // by the user

}  // namespace e4::cli::exit_status
