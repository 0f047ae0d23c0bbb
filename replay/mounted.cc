// SPDX-License-Identifier: GPL-2.0-only
#include "replay/mounted.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace e4::replay {
namespace fs = std::filesystem;
namespace {

/// \040 and friends of /proc/mounts.
std::string unescape(const std::string& s) {
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\\' && i + 3 < s.size()) {
      out += static_cast<char>((s[i + 1] - '0') * 64 + (s[i + 2] - '0') * 8 + (s[i + 3] - '0'));
      i += 3;
    } else {
      out += s[i];
    }
  }
  return out;
}

}  // namespace

std::string read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

Result<Mounted> find_mounted(const std::string& target) {
  std::error_code ec;
  std::string real = fs::canonical(target, ec).string();
  if (ec) return make_error(ErrorKind::usage, target + ": no such mount point or device");
  std::ifstream in("/proc/mounts");
  Mounted found;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string device, point, type, options;
    words >> device >> point >> type >> options;
    device = unescape(device);
    point = unescape(point);
    if (type != "ext4" || (device != real && point != real)) continue;
    found.device = device;
    found.mount_point = point;
    found.options = options;
    found.proc_mounts = line;
  }
  if (found.device.empty()) return make_error(ErrorKind::usage, target + ": no ext4 file system is mounted there");
  struct stat st{};
  if (::stat(found.device.c_str(), &st) != 0 || !S_ISBLK(st.st_mode))
    return make_error(ErrorKind::usage, found.device + ": not a block device");
  found.major = major(st.st_rdev);
  found.minor = minor(st.st_rdev);
  found.name = fs::canonical(found.device, ec).filename().string();
  return found;
}

std::vector<std::string> proc_options(const Mounted& m) {
  std::vector<std::string> out;
  std::ifstream in("/proc/fs/ext4/" + m.name + "/options");
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::map<std::string, std::string> sysfs_tunables(const Mounted& m) {
  std::map<std::string, std::string> out;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator("/sys/fs/ext4/" + m.name, ec)) {
    if (!e.is_regular_file(ec)) continue;
    std::ifstream in(e.path());
    std::string line;
    if (std::getline(in, line) && line.size() < 200) out[e.path().filename().string()] = line;
  }
  return out;
}

bool is_rotational(const Mounted& m) {
  const std::string base = "/sys/dev/block/" + std::to_string(m.major) + ":" + std::to_string(m.minor);
  std::string v = read_line(base + "/queue/rotational");
  if (v.empty()) v = read_line(base + "/../queue/rotational");  // a partition
  return v == "1";
}

Result<int> run_program(const std::vector<std::string>& argv, const std::string& directory) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) return errno_error(errno, "cannot make a pipe");
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(errno, argv[0] + ": cannot start");
  if (pid == 0) {
    if (directory.empty() || ::chdir(directory.c_str()) == 0) ::execvp(args[0], args.data());
    const int e = errno;
    (void)!::write(failed[1], &e, sizeof e);
    ::_exit(127);
  }
  ::close(failed[1]);
  int e = 0;
  const ssize_t n = ::read(failed[0], &e, sizeof e);
  ::close(failed[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (n == sizeof e) return errno_error(e, argv[0] + ": cannot start");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace e4::replay
