// SPDX-License-Identifier: GPL-2.0-only
#include "image/signature.h"

#include <blkid/blkid.h>

#include <memory>

namespace e4::image {

std::optional<std::string> describe_content(const std::string& path) {
  struct Free {
    void operator()(blkid_probe p) const { blkid_free_probe(p); }
  };
  const std::unique_ptr<std::remove_pointer_t<blkid_probe>, Free> probe(blkid_new_probe_from_filename(path.c_str()));
  if (!probe) return {};
  blkid_probe_enable_partitions(probe.get(), 1);
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL);
  if (blkid_do_fullprobe(probe.get()) != 0) return {};
  const char* value = nullptr;
  std::string text;
  if (blkid_probe_lookup_value(probe.get(), "TYPE", &value, nullptr) == 0) {
    text = std::string("a ") + value + " file system";
    if (blkid_probe_lookup_value(probe.get(), "LABEL", &value, nullptr) == 0) text += std::string(" labelled '") + value + "'";
    return text;
  }
  if (blkid_probe_lookup_value(probe.get(), "PTTYPE", &value, nullptr) == 0)
    return std::string("a ") + value + " partition table";
  return {};
}

}  // namespace e4::image
