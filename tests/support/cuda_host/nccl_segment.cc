/* SPDX-License-Identifier: Apache-2.0 */
/* The file through which the ranks of a communicator reach each other. It is sparse,
 * and zero where unwritten; it is removed by the last rank that maps it, or at the end
 * of the process that named it. */
#include "tests/support/cuda_host/nccl_state.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <glob.h>
#include <random>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cadre_nccl;

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

namespace
{

/* Paths of this process that may have no last rank. */
struct own_paths {
    std::set<std::string> paths;
    pid_t pid = 0;
};
own_paths &own()
{
    static own_paths *all = new own_paths;
    return *all;
}

void remove_own()
{
    if (own().pid != getpid()) /* a child's end is not the parent's */
        return;
    for (const std::string &path : own().paths) {
        glob_t found; /* those of splits too */
        if (glob((path + "*").c_str(), GLOB_NOSORT, nullptr, &found) != 0)
            continue;
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
    }
}

std::string folder()
{
    if (access("/dev/shm", W_OK | X_OK) == 0)
        return "/dev/shm";
    const char *told = getenv("TMPDIR");
    return told && *told ? told : "/tmp";
}

} // namespace

std::string cadre_nccl::new_path()
{
    cadre_host::locked hold;
    own_paths &mine = own();
    if (mine.pid != getpid()) {
        if (mine.pid == 0)
            atexit(remove_own);
        mine.paths.clear();
        mine.pid = getpid();
    }
    std::random_device device;
    std::string path = folder() + "/cadre-nccl-" + std::to_string(getpid()) + "-" +
                       std::to_string(device()) + ".";
    mine.paths.insert(path);
    return path;
}

std::shared_ptr<mapping> cadre_nccl::map_segment(const std::string &path, bool make)
{
    const int file =
        open(path.c_str(), O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
    if (file < 0)
        return nullptr;
    void *at = MAP_FAILED;
    if (!make || ftruncate(file, sizeof(segment)) == 0)
        at =
            mmap(nullptr, sizeof(segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int error = errno;
    close(file);
    errno = error;
    if (at == MAP_FAILED)
        return nullptr;
    auto made = std::make_shared<mapping>();
    made->at = (segment *)at;
    made->path = path;
    return made;
}

mapping::~mapping()
{
    if (at)
        munmap(at, sizeof(segment));
}
