// SPDX-License-Identifier: GPL-2.0-only
#include "replay/state_saver.h"

#include <zstd.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "replay/mounted.h"

namespace e4::replay {

Result<void> compress_file(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  if (!in || !out) return make_error(ErrorKind::io, to + ": cannot write");
  std::vector<char> a(ZSTD_CStreamInSize()), b(ZSTD_CStreamOutSize());
  ZSTD_CCtx* const c = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 9);
  ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
  bool last = false;
  std::size_t failed = 0;
  while (!last && failed == 0) {
    in.read(a.data(), static_cast<std::streamsize>(a.size()));
    last = in.gcount() < static_cast<std::streamsize>(a.size());
    ZSTD_inBuffer i{a.data(), static_cast<std::size_t>(in.gcount()), 0};
    for (bool more = true; more;) {
      ZSTD_outBuffer o{b.data(), b.size(), 0};
      const std::size_t rest = ZSTD_compressStream2(c, &o, &i, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(rest) != 0) {
        failed = rest;
        break;
      }
      out.write(b.data(), static_cast<std::streamsize>(o.pos));
      more = last ? rest != 0 : i.pos < i.size;
    }
  }
  ZSTD_freeCCtx(c);
  out.flush();
  if (failed != 0 || !out) return make_error(ErrorKind::io, to + ": cannot write");
  std::remove(from.c_str());
  return {};
}

Result<void> save_state(const std::string& device, const std::string& stem) {
  const std::string image = stem + ".qcow2";
  if (E4_TRY(run_program({"e2image", "-Q", device, image})) != 0)
    return make_error(ErrorKind::io, device + ": e2image could not save its metadata");
  return compress_file(image, image + ".zst");
}

}  // namespace e4::replay
