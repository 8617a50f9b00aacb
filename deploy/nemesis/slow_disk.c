// Makes the disk of a process slow: preloaded, it delays what the process writes to files and syncs.
//
// The file that SLOW_DISK names has the milliseconds of a sync as a 32-bit number, which may change at any time. A write
// takes a twentieth of that.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define WRITES_PER_SYNC 20

static volatile uint32_t *sync_ms;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SLOW_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof *sync_ms, PROT_READ, MAP_SHARED, file, 0);
    sync_ms = mapped == MAP_FAILED ? 0 : mapped;
    if (file >= 0) close(file);
}

static void wait_for_disk(int fd, uint32_t part) {
    struct stat found;
    uint32_t ms = sync_ms ? *sync_ms / part : 0;
    if (ms == 0 || fstat(fd, &found) || !S_ISREG(found.st_mode)) return;
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) && errno == EINTR) {
    }
}

#define SLOW(result, name, part, parameters, arguments)                        \
    result name parameters {                                                   \
        static result (*real) parameters;                                      \
        if (!real) real = (result (*) parameters)dlsym(RTLD_NEXT, #name);      \
        wait_for_disk(fd, part);                                               \
        return real arguments;                                                 \
    }

SLOW(int, fsync, 1, (int fd), (fd))
SLOW(int, fdatasync, 1, (int fd), (fd))
SLOW(ssize_t, write, WRITES_PER_SYNC, (int fd, const void *data, size_t size), (fd, data, size))
SLOW(ssize_t, pwrite, WRITES_PER_SYNC, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
SLOW(ssize_t, pwrite64, WRITES_PER_SYNC, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
SLOW(ssize_t, writev, WRITES_PER_SYNC, (int fd, const struct iovec *parts, int count), (fd, parts, count))
SLOW(ssize_t, pwritev, WRITES_PER_SYNC, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
SLOW(ssize_t, pwritev64, WRITES_PER_SYNC, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
